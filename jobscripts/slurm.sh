#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Trains on the nodes of a SLURM job. Submit it from the top of the source tree, or from anywhere if shoal is in PATH:
#
#   sbatch [OPTION OF SBATCH ...] jobscripts/slurm.sh [--section.name=value ...]
#
# Without options: 2 nodes, 2 ranks per node, 1 core per rank, 1 hour, and quickstart.cfg. That deck has 4 micro-batches, so it
# runs on at most 4 ranks. For 4 nodes: sbatch --nodes=4 jobscripts/slurm.sh --batch.global=64
#
# Environment variables of the job, and their defaults:
#   SHOAL           the program                 (build/shoal in the directory of submission, otherwise the one in PATH)
#   SHOAL_DECK      the deck                    (quickstart.cfg of the source tree or of the installation)
#   SHOAL_OUT       output.dir                  (runs/JOBID in the directory of submission)
#   SHOAL_SRUN_MPI  how srun connects the ranks (pmi2, for MPICH; `srun --mpi=list` shows the others, for example
#                   cray_shasta). With a wrong one every rank believes to be rank 0 of 1; shoal refuses that.
#
# Exit status 75 means that the run stopped early, with a complete checkpoint (train.stop_after: wall time in seconds; set it
# below --time: 3300 for an hour). The job then goes back into the queue. It keeps its id, and so its output.dir, and resumes
# from there.

#SBATCH --job-name=shoal
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=2
#SBATCH --cpus-per-task=1
#SBATCH --time=01:00:00
#SBATCH --output=shoal-%j.log
#SBATCH --open-mode=append
#SBATCH --requeue

set -euo pipefail
cd "$SLURM_SUBMIT_DIR"

shoal=${SHOAL:-$PWD/build/shoal}
[[ -n ${SHOAL:-} || -x $shoal ]] || shoal=$(command -v shoal) || { echo "no build/shoal, and no shoal in PATH" >&2; exit 2; }
deck=${SHOAL_DECK:-$PWD/inputs/quickstart.cfg}
[[ -n ${SHOAL_DECK:-} || -f $deck ]] || deck=$(dirname "$shoal")/../share/shoal/inputs/quickstart.cfg
out=${SHOAL_OUT:-$PWD/runs/$SLURM_JOB_ID}
mkdir -p "$(dirname "$out")"

# A job that was requeued, after status 75 or because a node failed, resumes from its last checkpoint. If there is none, it
# starts from the beginning.
again=()
if [[ -e $out/run.json ]] || compgen -G "$out/checkpoints/step_*.h5" >/dev/null; then
  again=(--checkpoint.resume=latest)
fi

# One thread per core of a rank. srun needs the number of cores, too: since SLURM 22.05 it does not inherit it.
export OMP_NUM_THREADS=${SLURM_CPUS_PER_TASK:-1}
status=0
srun --mpi="${SHOAL_SRUN_MPI:-pmi2}" --cpus-per-task="$OMP_NUM_THREADS" --kill-on-bad-exit=1 \
  "$shoal" train "$deck" --output.dir="$out" --checkpoint.dir="$out/checkpoints" "${again[@]}" "$@" || status=$?

if [[ $status -eq 75 ]]; then
  scontrol requeue "$SLURM_JOB_ID" # ends this script
fi
exit "$status"
