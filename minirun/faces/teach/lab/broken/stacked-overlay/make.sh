# an image of one file
mkdir image
echo 'of the image' >image/file
