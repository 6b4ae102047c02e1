mkdir www
echo small >www/small
head -c 100000 /dev/zero >www/page
