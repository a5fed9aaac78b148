#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Trains on the nodes of a PBS job. Submit it from the top of the source tree, or from anywhere if shoal is in PATH:
#
#   qsub [OPTION OF QSUB ...] [-v NAME=VALUE,...] jobscripts/pbs.sh
#
# Without options: 2 nodes, 2 ranks per node, 1 core per rank, 1 hour, and quickstart.cfg. That deck has 4 micro-batches, so it
# runs on at most 4 ranks. For 4 nodes:
#   qsub -l select=4:ncpus=2:mpiprocs=2:ompthreads=1 -v SHOAL_OPTIONS=--batch.global=64 jobscripts/pbs.sh
#
# Variables of the job (-v), and their defaults:
#   SHOAL          the program                   (build/shoal in the directory of submission, otherwise the one in PATH)
#   SHOAL_DECK     the deck                      (quickstart.cfg of the source tree or of the installation)
#   SHOAL_OUT      output.dir                    (runs/JOBNUMBER in the directory of submission)
#   SHOAL_OPTIONS  further options, separated by spaces: --train.steps=200 --optimizer.lr=3e-4
#   SHOAL_MPIEXEC  MPICH's mpiexec               (the one in PATH)
#
# Exit status 75 means that the run stopped early, with a complete checkpoint (train.stop_after: wall time in seconds; set it
# below walltime). Submit the job again with -v SHOAL_OUT=runs/JOBNUMBER, and it resumes from there. With
# -W depend=afternotok:JOBID the second job can be submitted together with the first.

#PBS -N shoal
#PBS -l select=2:ncpus=2:mpiprocs=2:ompthreads=1
#PBS -l place=scatter
#PBS -l walltime=01:00:00
#PBS -j oe

set -euo pipefail
cd "$PBS_O_WORKDIR" # the job starts in $HOME

shoal=${SHOAL:-$PWD/build/shoal}
[[ -n ${SHOAL:-} || -x $shoal ]] || shoal=$(command -v shoal) || { echo "no build/shoal, and no shoal in PATH" >&2; exit 2; }
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

# The node file has one line per rank (mpiprocs of each chunk), node by node. PBS has set OMP_NUM_THREADS to ompthreads.
ranks=$(wc -l <"$PBS_NODEFILE")
"${SHOAL_MPIEXEC:-mpiexec}" -f "$PBS_NODEFILE" -n "$ranks" \
  "$shoal" train "$deck" --output.dir="$out" --checkpoint.dir="$out/checkpoints" "${again[@]}" "${options[@]}"
