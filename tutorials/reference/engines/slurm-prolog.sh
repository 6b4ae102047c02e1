#!/bin/sh
# Slurm: /etc/slurm/prolog.sh on each node, named in slurm.conf as Prolog and as Epilog. slurmd runs it
# as root before a job and after it. It makes what the lines in slurm-gpus-oci.conf name: the user's
# own state root, and a file that says which GPUs Slurm has given the job. Only root can write that.
root=/run/minirun-slurm
gpus=/run/minirun-slurm-gpus
case $SLURM_SCRIPT_CONTEXT in
prolog_slurmd)
    install -d -m 755 $root $gpus
    install -d -m 700 -o "$SLURM_JOB_UID" "$root/$SLURM_JOB_USER"
    echo "$SLURM_JOB_GPUS" > "$gpus/$SLURM_JOB_ID"
    ;;
epilog_slurmd)
    rm -f "$gpus/$SLURM_JOB_ID"
    ;;
esac
