# the reply comes after the work that it stands for
echo 'echo done >reply' >>run.sh
