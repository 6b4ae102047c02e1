# a library of an older driver, as some images bring it along
mkdir old
echo 'libcuda of driver 535' >old/libcuda.so.535.01
ln -s libcuda.so.535.01 old/libcuda.so.1
