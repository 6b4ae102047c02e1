# dd holds one block in memory: 48 MiB do not fit into 32. The limit stays, with room for the block
sed -i 's/--memory 32m --memory-swap 32m/--memory 128m --memory-swap 128m/' run.sh
