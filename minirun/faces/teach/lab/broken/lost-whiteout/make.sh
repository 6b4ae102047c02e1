# two layers of an image; a careless program has unpacked the second
mkdir -p layers/1 layers/2
echo 'password' >layers/1/secret
echo 'hello' >layers/1/kept
: >layers/2/.wh.secret            # as it stands in the layer's tar archive
