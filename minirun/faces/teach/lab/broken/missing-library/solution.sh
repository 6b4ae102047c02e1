# utility is nvidia-smi and NVML; libcuda belongs to compute
sed -i 's/=utility/=compute,utility/' run.sh
