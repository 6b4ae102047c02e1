# the driver's own library is put in at each start: let the linker find it
sed -i 's/ --env LD_LIBRARY_PATH=[^ ]*//' run.sh
