#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Trains on the nodes of a PBS job. Submit it from the top of the source tree, or from anywhere if shoal is in PATH:
#
#   qsub [OPTION OF QSUB ...] [-v NAME=VALUE,...] jobscripts/pbs.sh
#
# Without options: 2 nodes, 2 ranks per node, 1 core per rank, 1 hour, and quickstart.cfg. That deck has 4 micro-batches of 8
# sequences, so it runs on at most 4 ranks. For 4 nodes:
#   qsub -l select=4:ncpus=2:mpiprocs=2:ompthreads=1 -v SHOAL_OPTIONS=--batch.global=64 jobscripts/pbs.sh
#
# A job that asks for ngpus trains on GPUs, with a program that was built for them (jobscripts/README.md). Ask for one rank for each
# GPU, here with 8 cores:
#   qsub -l select=1:ncpus=32:ngpus=4:mpiprocs=4:ompthreads=8 jobscripts/pbs.sh
#
# Variables of the job (-v), and their defaults:
#   SHOAL          the program                   (build/shoal, or with GPUs build-cuda/shoal, in the directory of submission,
#                  otherwise the one in PATH)
#   SHOAL_DECK     the deck                      (quickstart.cfg of the source tree or of the installation)
#   SHOAL_OUT      output.dir                    (runs/JOBNUMBER in the directory of submission)
#   SHOAL_OPTIONS  further options, separated by spaces: --train.steps=200 --optimizer.lr=3e-4
#   SHOAL_SWEEP    a file with options in each line: subjob K of a job array (qsub -J 1-8) adds those of line K, and writes to
#                  SHOAL_OUT/K                   (none)
#   SHOAL_BIND     how mpiexec binds a rank: core, numa, none                                       (core)
#   SHOAL_ANSWER   after a failure all nodes must answer within so many seconds, or the job is submitted again   (20)
#   SHOAL_CHAIN    no: the job does not submit the next one                                         (yes)
#   SHOAL_MPIEXEC  mpiexec of MPICH, Intel MPI, HPE's PALS or Open MPI, whichever belongs to the MPI library of the program
#                                                (the one in PATH)
#   SHOAL_GPUS     yes, no: whether to train on GPUs   (yes if the job has ngpus, as qstat shows it; where there is no qstat, if
#                  CUDA_VISIBLE_DEVICES is set)
#   SHOAL_CORES    with GPUs: cores of a rank    (ncpus / mpiprocs, as qstat shows them; otherwise ompthreads)
#   SHOAL_GPU_AWARE_MPI  1 (with Open MPI: messages) if the MPI library reads and writes the memory of GPUs but does not say so,
#                  0 if it must not
# NCCL's variables, if it carries the messages (comm.backend=nccl): slurm.sh explains them; give them with -v, too.
#
# The program asks qstat what is left of the walltime (train.stop_after=auto), and stops in time, or earlier if the deck says so
# (train.stop_after): it writes a checkpoint and ends with status 75. This script then submits itself again, with the resources
# and the queue of this job, and the next job resumes, until all steps are done. Where compute nodes have no qsub or no qstat,
# the log says what to do. A job that is deleted (qdel) writes a checkpoint, too, but is not submitted again. If a rank dies, or
# a node, the run goes on from its last checkpoint: set checkpoint.every.

#PBS -N shoal
#PBS -l select=2:ncpus=2:mpiprocs=2:ompthreads=1
#PBS -l place=scatter
#PBS -l walltime=01:00:00
#PBS -j oe

# The modules with which shoal was built:
# module load gcc cray-mpich cray-hdf5-parallel onednn kokkos
# module load gcc cuda cray-mpich craype-accel-nvidia90 cray-hdf5-parallel   # for GPUs

set -euo pipefail
cd "$PBS_O_WORKDIR" # the job starts in $HOME

# Defaults; `shoal jobscript` fills them in.
program='' input='' gpus='' preset=()

# What qstat shows of this job. It breaks long lines: "    Resource_List.select = 2:ncpus=2".
look_up() {
  record=$(timeout 30 qstat -f "$PBS_JOBID" 2>/dev/null | sed -e ':a' -e '$!N' -e 's/\n\t//' -e 'ta' -e 'P' -e 'D') || true
}
shown() { sed -n "s/^ *$1 = //p" <<<"$record"; }
look_up

# The node file has one line per rank (mpiprocs of each chunk), node by node. PBS has set OMP_NUM_THREADS to ompthreads.
ranks=$(wc -l <"$PBS_NODEFILE")
nodes=$(sort -u "$PBS_NODEFILE" | wc -l)
cores=${OMP_NUM_THREADS:-1}
gpus=${SHOAL_GPUS:-$gpus}
ngpus=$(shown Resource_List.ngpus)
[[ -n $gpus || ${ngpus:-0} -eq 0 ]] || gpus=yes
[[ -n $gpus || -n $record || -z ${CUDA_VISIBLE_DEVICES:-} ]] || gpus=yes
[[ ${gpus:-no} =~ ^(yes|no)$ ]] || { echo "SHOAL_GPUS = $gpus; allowed: yes, no" >&2; exit 2; }
if [[ $gpus == yes ]]; then
  # Rank k of a node takes the k-th of the GPUs that PBS gives the job there (CUDA_VISIBLE_DEVICES), and stays on cores of its
  # own. train.device makes a program for processors refuse the job.
  build=build-cuda device=(--train.device=cuda)
  ncpus=$(shown Resource_List.ncpus) # the sum over all chunks, as ngpus is
  [[ -z $ncpus ]] || cores=$((ncpus > ranks ? ncpus / ranks : 1))
  cores=${SHOAL_CORES:-$cores}
  export OMP_NUM_THREADS=1
  [[ ${ngpus:-$ranks} -eq $ranks ]] || echo "warning: $ranks ranks and $ngpus GPUs; mpiprocs = ngpus uses each GPU" >&2
else
  build=build device=()
fi

shoal=${SHOAL:-${program:-$PWD/$build/shoal}}
[[ -x $shoal || -n ${SHOAL:-} ]] || shoal=$(command -v shoal) || { echo "no $build/shoal, and no shoal in PATH" >&2; exit 2; }
deck=${SHOAL_DECK:-${input:-$PWD/inputs/quickstart.cfg}}
[[ -f $deck || -n ${SHOAL_DECK:-} ]] || deck=$(dirname "$shoal")/../share/shoal/inputs/quickstart.cfg
number=${PBS_JOBID%%.*} # of an array 17[]
task=${PBS_ARRAY_INDEX:-${SHOAL_TASK:-}}
base=${SHOAL_OUT:-$PWD/runs/${number%%\[*}}
out=$base${task:+/$task}
mkdir -p "$(dirname "$out")"
swept=()
if [[ -n ${SHOAL_SWEEP:-} ]]; then
  line=$(sed -n "${task:?SHOAL_SWEEP is for job arrays: qsub -J 1-N}p" "$SHOAL_SWEEP")
  [[ -n $line ]] || { echo "$SHOAL_SWEEP has no line $task" >&2; exit 2; }
  read -ra swept <<<"$line"
fi
# An option that the job is given takes the place of the one that `shoal jobscript` has filled in.
read -ra options <<<"${SHOAL_OPTIONS:-}"
options+=("${swept[@]}")
for option in "${preset[@]}"; do
  [[ " ${options[*]} " == *" ${option%%=*}"[=\ ]* ]] || options+=("$option")
done

stop=()
if [[ "${options[*]}" == *train.stop_after* ]]; then
  : # the user's own limit
elif command -v qstat >/dev/null; then
  stop=(--train.stop_after=auto)
else
  echo "no qstat here: set --train.stop_after=HH:MM:SS below the walltime, or work after the last checkpoint is lost" >&2
fi

bind=${SHOAL_BIND:-core}
mpiexec=${SHOAL_MPIEXEC:-mpiexec}
equal_nodes() {
  [[ $((ranks % nodes)) -eq 0 ]] || { echo "$ranks ranks on $nodes nodes: this mpiexec wants as many on each" >&2; exit 2; }
}
case $("$mpiexec" --version 2>&1 || true)$("$mpiexec" --help 2>&1 || true) in
  *HYDRA*) # MPICH
    [[ $bind != core ]] || bind=core:$cores
    launch=("$mpiexec" -f "$PBS_NODEFILE" -n "$ranks" -bind-to "$bind") ;;
  *"Open MPI"* | *OpenRTE*)
    equal_nodes
    launch=("$mpiexec" --hostfile "$PBS_NODEFILE" -n "$ranks" --map-by "ppr:$((ranks / nodes)):node:PE=$cores" --bind-to "$bind"
      -x OMP_NUM_THREADS) ;;
  *--cpu-bind*) # HPE's PALS, which knows the nodes of the job
    equal_nodes
    [[ $bind != core ]] || bind=depth
    launch=("$mpiexec" -n "$ranks" --ppn "$((ranks / nodes))" --depth "$cores" --cpu-bind "$bind") ;;
  *) # Intel MPI binds by itself
    launch=("$mpiexec" -f "$PBS_NODEFILE" -n "$ranks") ;;
esac

running='' deleted=no warned=no
# qsig may send a signal to this shell alone, so it is passed on to mpiexec, and from there to the ranks. SIGINT and SIGUSR2 become
# SIGUSR1, since MPICH's mpiexec ends everything at a second SIGINT, and itself at a SIGUSR2, which is therefore ignored below.
# SIGTERM comes from qdel, or at the end of the walltime.
trap 'warned=yes; kill -USR1 "$running" || true' USR1 USR2 INT
trap 'deleted=yes; kill -TERM "$running" || true' TERM
# Changes when a run writes its summary.
summary() { stat --format='%i %y' "$out/summary.json" 2>/dev/null || true; }
newest() { compgen -G "$out/checkpoints/step_*.h5" | sort | tail -n 1 || true; }

# A rank that dies ends the others, but not the job: the run starts again here, from its last checkpoint, if all nodes answer.
# If they do not, the job is submitted again. It ends after three attempts in a row that made no new checkpoint, wherever they
# were made: the next job gets their number.
idle=${SHOAL_ATTEMPTS:-0}
while true; do
  # If an earlier job used the directory, this one resumes from its last checkpoint, or from the beginning if there is none.
  again=()
  if [[ -e $out/run.json ]] || compgen -G "$out/checkpoints/step_*.h5" >/dev/null; then
    again=(--checkpoint.resume=latest)
  fi
  before=$(newest) written=$(summary)
  rm -f "$out/aborted.txt"
  [[ $warned == no ]] || { status=75; break; } # the signal came when no run was there to get it
  (
    trap '' USR2
    exec "${launch[@]}" "$shoal" train "$deck" "${device[@]}" --output.dir="$out" --checkpoint.dir="$out/checkpoints" \
      "${stop[@]}" "${again[@]}" "${options[@]}"
  ) &
  running=$!
  while kill -0 "$running" 2>/dev/null; do # `wait` would lose one of two signals at a time
    # A rank that has ended all ranks leaves this note. mpiexec might wait longer for a node without power.
    [[ ! -e $out/aborted.txt ]] || { sleep 3 || true; kill -KILL "$running" 2>/dev/null || true; }
    sleep 0.5 || true
  done
  status=0
  wait "$running" || status=$?
  # A run that came to its end has written its verdict. mpiexec may end with another status, also with 0, after a signal.
  now=$(summary)
  if [[ -n $now && $now != "$written" ]]; then
    verdict=$(sed -n '/^ *"exit_code": /{s/[^0-9]//gp;q}' "$out/summary.json")
    status=${verdict:-$status}
  fi
  latest=$(newest)
  idle=$((idle + 1))
  [[ $latest == "$before" && $status -ne 75 ]] || idle=0
  [[ $status -ne 0 && $status -ne 2 && $status -ne 75 && $deleted == no ]] || break
  [[ -n $latest && $idle -lt 3 ]] || break
  if [[ $warned == yes ]] || ! timeout --kill-after=5 "${SHOAL_ANSWER:-20}" "${launch[@]}" true; then
    status=75 # soon out of time, or without a node
    break
  fi
  [[ $deleted == no ]] || break
  echo "the run ended with status $status; it goes on from $latest" >&2
done
trap - USR1 USR2 TERM INT

# Submits the next job, with the resources, queue, account, project and variables of this one, as they are now.
submit_again() {
  local name value next=(-q "$PBS_O_QUEUE") site=() select names
  look_up
  select=$(shown Resource_List.select)
  while read -r name _ value; do
    case $name in
      select | place | walltime) next+=(-l "$name=$value") ;;
      ncpus | mpiprocs | ompthreads | ngpus | mem | vmem | nodes | nodect) ;; # sums over the chunks of select
      *) [[ :$select == *:$name=* ]] || site+=(-l "$name=$value") ;;           # filesystems, licences
    esac
  done < <(sed -n 's/^ *Resource_List\.//p' <<<"$record")
  value=$(shown Account_Name)
  [[ -z $value ]] || next+=(-A "$value")
  value=$(shown project)
  [[ -z $value || $value == _pbs_project_default ]] || next+=(-P "$value")
  # Of the variables with which the job was submitted (-v, -V) those that still exist, and the script's own.
  export SHOAL_OUT=$base SHOAL_TASK=$task SHOAL_ATTEMPTS=$idle
  names=$(shown Variable_List | tr ',' '\n' | sed -n 's/^\([A-Za-z_][A-Za-z0-9_]*\)=.*/\1/p')
  names=$(comm -12 <(compgen -e | sort) <(printf '%s\n' "$names" "$(compgen -e SHOAL)" | grep -v '^PBS_' | sort -u))
  next+=(-v "$(paste -sd, <<<"$names")" "$0") # $0 is PBS's copy of this script
  # Some of these resources a site may have set itself, and may not let users ask for.
  qsub "${site[@]}" "${next[@]}" || { [[ ${#site[@]} -gt 0 ]] && qsub "${next[@]}"; }
}
if [[ $status -eq 75 && $deleted == no && ${SHOAL_CHAIN:-yes} != no ]]; then
  submit_again || echo "submit the job again with -v SHOAL_OUT=$base, and it resumes" >&2
fi
exit "$status"
