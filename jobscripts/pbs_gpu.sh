#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Trains on the GPUs of a PBS job, one rank for each GPU. Needs a build for GPUs (jobscripts/README.md). Submit it from the top
# of the source tree, or from anywhere if shoal is in PATH:
#
#   qsub [OPTION OF QSUB ...] [-v NAME=VALUE,...] jobscripts/pbs_gpu.sh
#
# Without options: 1 node, 4 GPUs and 4 ranks, 8 cores per rank, 1 hour, and quickstart.cfg. For 4 nodes:
#   qsub -l select=4:ncpus=32:ngpus=4:mpiprocs=4:ompthreads=1 -v SHOAL_OPTIONS=--batch.global=64 jobscripts/pbs_gpu.sh
#
# Variables of the job (-v), and their defaults:
#   SHOAL          the program                   (build-cuda/shoal in the directory of submission, otherwise the one in PATH)
#   SHOAL_DECK     the deck                      (quickstart.cfg of the source tree or of the installation)
#   SHOAL_OUT      output.dir                    (runs/JOBNUMBER in the directory of submission)
#   SHOAL_OPTIONS  further options, separated by spaces: --train.steps=200 --optimizer.lr=3e-4
#   SHOAL_MPIEXEC  MPICH's mpiexec               (the one in PATH)
#   SHOAL_CORES    cores of a rank               (8: ncpus / mpiprocs of the line below)
#   SHOAL_GPU_AWARE_MPI  1 if the MPI library reads and writes the memory of GPUs but does not say so, 0 if it must not
# NCCL's variables, if it carries the messages (comm.backend=nccl): slurm_gpu.sh explains them; give them with -v, too.
#
# Exit status 75 means that the run stopped early, with a complete checkpoint (train.stop_after: wall time in seconds; set it
# below walltime). Submit the job again with -v SHOAL_OUT=runs/JOBNUMBER, and it resumes from there.

#PBS -N shoal
#PBS -l select=1:ncpus=32:ngpus=4:mpiprocs=4:ompthreads=1
#PBS -l place=scatter
#PBS -l walltime=01:00:00
#PBS -j oe

set -euo pipefail
cd "$PBS_O_WORKDIR" # the job starts in $HOME

shoal=${SHOAL:-$PWD/build-cuda/shoal}
[[ -n ${SHOAL:-} || -x $shoal ]] || shoal=$(command -v shoal) || { echo "no build-cuda/shoal, and no shoal in PATH" >&2; exit 2; }
deck=${SHOAL_DECK:-$PWD/inputs/quickstart.cfg}
[[ -n ${SHOAL_DECK:-} || -f $deck ]] || deck=$(dirname "$shoal")/../share/shoal/inputs/quickstart.cfg
out=${SHOAL_OUT:-$PWD/runs/${PBS_JOBID%%.*}}
mkdir -p "$(dirname "$out")"
read -ra options <<<"${SHOAL_OPTIONS:-}"

# If an earlier job used the directory, this one resumes from its last checkpoint, or from the beginning if there is none.
again=()
if [[ -e $out/run.json ]] || compgen -G "$out/checkpoints/step_*.h5" >/dev/null; then
  again=(--checkpoint.resume=latest)
fi

# The node file has one line per rank (mpiprocs of each chunk), node by node. Rank k of a node takes the k-th of the GPUs that
# PBS gives the job there (CUDA_VISIBLE_DEVICES). Each rank stays on cores of its own. train.device makes a program for
# processors refuse the job.
ranks=$(wc -l <"$PBS_NODEFILE")
"${SHOAL_MPIEXEC:-mpiexec}" -f "$PBS_NODEFILE" -n "$ranks" -bind-to "core:${SHOAL_CORES:-8}" \
  "$shoal" train "$deck" --train.device=cuda --output.dir="$out" --checkpoint.dir="$out/checkpoints" "${again[@]}" "${options[@]}"
