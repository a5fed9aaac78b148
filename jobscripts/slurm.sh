#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Trains on the nodes of a SLURM job. Submit it from the top of the source tree, or from anywhere if shoal is in PATH:
#
#   sbatch [OPTION OF SBATCH ...] jobscripts/slurm.sh [--section.name=value ...]
#
# Without options: 2 nodes, 2 ranks per node, 1 core per rank, 1 hour, and quickstart.cfg. That deck has 4 micro-batches of 8
# sequences, so it runs on at most 4 ranks. For 4 nodes: sbatch --nodes=4 jobscripts/slurm.sh --batch.global=64
#
# A job that has GPUs trains on them, with a program that was built for GPUs (jobscripts/README.md). Ask for one rank for each GPU:
#   sbatch --nodes=1 --ntasks-per-node=4 --gpus-per-node=4 --cpus-per-task=8 jobscripts/slurm.sh
#
# Environment variables of the job, and their defaults:
#   SHOAL           the program                 (build/shoal, or with GPUs build-cuda/shoal, in the directory of submission,
#                   otherwise the one in PATH)
#   SHOAL_DECK      the deck                    (quickstart.cfg of the source tree or of the installation)
#   SHOAL_OUT       output.dir                  (runs/JOBID in the directory of submission)
#   SHOAL_SWEEP     a file with options in each line: task K of a job array (sbatch --array=1-8) adds those of line K, and
#                   writes to SHOAL_OUT/K       (none)
#   SHOAL_GPUS      yes, no: whether to train on GPUs   (yes if SLURM has given GPUs to the job)
#   SHOAL_BIND      how srun binds a rank: cores, ldoms (NUMA domains), none                                   (cores)
#   SHOAL_ANSWER    after a failure all nodes must answer within so many seconds, or the job goes back into the queue   (20)
#   SHOAL_SRUN_MPI  how srun connects the ranks (pmi2, for MPICH; `srun --mpi=list` shows the others, for example
#                   cray_shasta). With a wrong one every rank believes that it is alone; shoal refuses that.
#   SHOAL_GPU_AWARE_MPI  1 (with Open MPI: messages) if the MPI library reads and writes the memory of GPUs but does not say
#                   so, 0 if it must not.
#                   Cray MPICH also wants MPICH_GPU_SUPPORT_ENABLED=1.
#
# If NCCL carries the messages (comm.backend=nccl), it reads these variables. It finds good values by itself on most clusters:
#   NCCL_DEBUG=INFO           prints which networks and links it has found: look here first if a job is slow
#   NCCL_SOCKET_IFNAME=ib0    the network interface for its start, if it chooses one that does not reach the other nodes
#   NCCL_IB_HCA=mlx5_0,...    the InfiniBand adapters to use; NCCL_IB_DISABLE=1: none, messages go over TCP, slowly
#   NCCL_NET_PLUGIN           a network that NCCL does not know itself (AWS EFA, Slingshot); a module usually sets it
#   NCCL_MAX_P2P_NCHANNELS=16 halves the memory of a GPU that NCCL takes for messages to the other GPUs of a node: 1 to 3 GiB
#                             with eight GPUs. The banner says how much it took ("taken besides the run's own")
#   NCCL_HOSTID               lets several ranks on one GPU pass its check, for trials; not for training
#
# 120 seconds before the time limit SLURM sends SIGUSR1 to this script (--signal), which passes it on. The run then finishes its
# step, writes a checkpoint and ends with status 75, and the job goes back into the queue. It keeps its id, and so its
# output.dir, and resumes from there, until all steps are done. If a step and a checkpoint take longer than that, ask for an
# earlier signal. A job that is cancelled (scancel) writes a checkpoint, too, but does not go back into the queue. If a rank dies,
# or a node, the run goes on from its last checkpoint: set checkpoint.every.

#SBATCH --job-name=shoal
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=2
#SBATCH --cpus-per-task=1
#SBATCH --time=01:00:00
#SBATCH --signal=B:USR1@120
#SBATCH --output=shoal-%j.log
#SBATCH --open-mode=append
#SBATCH --requeue

# The modules with which shoal was built:
# module load gcc cray-mpich cray-hdf5-parallel onednn kokkos
# module load gcc cuda cray-mpich craype-accel-nvidia90 cray-hdf5-parallel   # for GPUs

set -euo pipefail
cd "$SLURM_SUBMIT_DIR"

# A job that was submitted by a task of an array inherits its variables, but is no task.
if [[ -n ${SLURM_ARRAY_JOB_ID:-} ]] && array=$(squeue --noheader --jobs="$SLURM_JOB_ID" --format=%F) &&
  ! grep -qx "$SLURM_ARRAY_JOB_ID" <<<"$array"; then
  unset SLURM_ARRAY_JOB_ID SLURM_ARRAY_TASK_ID
fi
# The task of an array that started last has the number of the array, which for `scontrol requeue` and squeue means all tasks.
# The others have numbers of their own.
job=$SLURM_JOB_ID
[[ $job != "${SLURM_ARRAY_JOB_ID:-}" ]] || job+=_$SLURM_ARRAY_TASK_ID

# Defaults; `shoal jobscript` fills them in.
program='' input='' gpus='' preset=()

# SLURM sets these two for every way to ask for GPUs, and removes what a job inherits of them; SLURM_GPUS it does not remove.
gpus=${SHOAL_GPUS:-$gpus}
[[ -n $gpus || ${SLURM_GPUS_ON_NODE:-0}${SLURM_JOB_GPUS:-} == 0 ]] || gpus=yes
[[ ${gpus:-no} =~ ^(yes|no)$ ]] || { echo "SHOAL_GPUS = $gpus; allowed: yes, no" >&2; exit 2; }
cores=${SLURM_CPUS_PER_TASK:-1}
if [[ $gpus == yes ]]; then
  # All ranks of a node see all of its GPUs, so that they reach each other's memory; rank k of the node takes the k-th.
  # --cpu-bind=cores keeps each rank on its own cores. train.device makes a program for processors refuse the job.
  build=build-cuda bound=(--gpu-bind=none) device=(--train.device=cuda)
  export OMP_NUM_THREADS=1
  tasks=${SLURM_TASKS_PER_NODE:-1} tasks=${tasks%%[(,]*}
  [[ ${SLURM_GPUS_ON_NODE:-$tasks} == "$tasks" ]] ||
    echo "warning: a node has $tasks ranks and $SLURM_GPUS_ON_NODE GPUs; --ntasks-per-node=$SLURM_GPUS_ON_NODE uses each GPU" >&2
else
  build=build bound=() device=()
  export OMP_NUM_THREADS=$cores # one thread per core of a rank
  unset "${!SLURM_GPUS@}"       # srun would ask for the GPUs of a job by which this one was submitted
fi

shoal=${SHOAL:-${program:-$PWD/$build/shoal}}
[[ -x $shoal || -n ${SHOAL:-} ]] || shoal=$(command -v shoal) || { echo "no $build/shoal, and no shoal in PATH" >&2; exit 2; }
deck=${SHOAL_DECK:-${input:-$PWD/inputs/quickstart.cfg}}
[[ -f $deck || -n ${SHOAL_DECK:-} ]] || deck=$(dirname "$shoal")/../share/shoal/inputs/quickstart.cfg
out=${SHOAL_OUT:-$PWD/runs/${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}}${SLURM_ARRAY_TASK_ID:+/$SLURM_ARRAY_TASK_ID}
mkdir -p "$(dirname "$out")"
swept=()
if [[ -n ${SHOAL_SWEEP:-} ]]; then
  line=$(sed -n "${SLURM_ARRAY_TASK_ID:?SHOAL_SWEEP is for job arrays: sbatch --array=1-N}p" "$SHOAL_SWEEP")
  [[ -n $line ]] || { echo "$SHOAL_SWEEP has no line $SLURM_ARRAY_TASK_ID" >&2; exit 2; }
  read -ra swept <<<"$line"
fi
# An option that the job is given takes the place of the one that `shoal jobscript` has filled in.
options=("${swept[@]}" "$@")
for option in "${preset[@]}"; do
  [[ " ${options[*]} " == *" ${option%%=*}"[=\ ]* ]] || options+=("$option")
done

running='' watching='' cancelled=no warned=no
# The ranks get SIGUSR1 and SIGUSR2 through srun. SIGTERM comes from scancel, which sends it to the ranks itself.
trap 'warned=yes; kill -USR1 "$running" || true' USR1
trap 'warned=yes; kill -USR2 "$running" || true' USR2
trap 'cancelled=yes' TERM INT
nodes=${SLURM_JOB_NUM_NODES:-1}
all_answer() { timeout --signal=KILL "${SHOAL_ANSWER:-20}" srun --overlap --mpi=none --nodes="$nodes" --ntasks="$nodes" true; }
# If the node of this script dies, SLURM keeps the others until it has missed it (SlurmdTimeout, 300 s by default). So the last
# node watches: when a run has ended and this node does not answer, it puts the job back into the queue.
watch_first_node() {
  local last
  [[ -z $watching ]] || kill "$watching" 2>/dev/null || true # if it has outlived the run before
  last=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | tail -n 1)
  # shellcheck disable=SC2016
  srun --overlap --quiet --mpi=none --nodes=1 --ntasks=1 --nodelist="$last" bash -c 'trap "" USR1 USR2
    while sleep 1; do
      [[ ! -e $0 ]] || timeout --signal=KILL "$1" srun --overlap --mpi=none --nodes=1 --ntasks=1 --nodelist="$2" true ||
        scontrol requeue "$3"
    done' "$out/aborted.txt" "${SHOAL_ANSWER:-20}" "$SLURMD_NODENAME" "$job" &
  watching=$!
}
# Changes when a run writes its summary.
summary() { stat --format='%i %y' "$out/summary.json" 2>/dev/null || true; }
newest() { compgen -G "$out/checkpoints/step_*.h5" | sort | tail -n 1 || true; }
end_steps() {
  local step ended=()
  # 17.0, or 9_2.0 in an array, whatever number was asked for; 17.batch is this script.
  for step in $(squeue --noheader --steps --jobs="$job" --format=%i || true); do
    [[ ! ${step##*.} =~ ^[0-9]+$ ]] || { scancel --signal=KILL "$step" & ended+=("$!"); }
  done
  for step in "${ended[@]}"; do wait "$step" || true; done # `wait` without a process would wait for the watch, too
}

# A rank that dies ends the others, but not the job: the run starts again here, from its last checkpoint, if all nodes answer.
# If they do not, the job goes back into the queue. It ends after three attempts in a row that made no new checkpoint, wherever
# they were made: a job that goes back into the queue leaves their number for its next start.
idle=$(cat "$out/attempts.txt" 2>/dev/null || echo 0)
rm -f "$out/attempts.txt"
while true; do
  # A job that was requeued, after status 75 or because a node failed, resumes from its last checkpoint, too. If there is none,
  # it starts from the beginning.
  again=()
  if [[ -e $out/run.json ]] || compgen -G "$out/checkpoints/step_*.h5" >/dev/null; then
    again=(--checkpoint.resume=latest)
  fi
  before=$(newest) written=$(summary)
  rm -f "$out/aborted.txt"
  [[ $nodes -eq 1 ]] || watch_first_node
  [[ $warned == no ]] || { status=75; break; } # the signal came when no run was there to get it
  # --overlap: for a while SLURM may count a step as running although its processes are dead. --cpus-per-task: since SLURM 22.05
  # srun does not inherit it.
  srun --overlap --mpi="${SHOAL_SRUN_MPI:-pmi2}" --cpus-per-task="$cores" --cpu-bind="${SHOAL_BIND:-cores}" "${bound[@]}" \
    --kill-on-bad-exit=1 "$shoal" train "$deck" "${device[@]}" --output.dir="$out" --checkpoint.dir="$out/checkpoints" \
    "${again[@]}" "${options[@]}" &
  running=$!
  while kill -0 "$running" 2>/dev/null; do # `wait` would lose one of two signals at a time
    # A rank that has ended all ranks leaves this note. srun might wait for others, or for a node without power, for KillWait
    # seconds (30 by default).
    [[ ! -e $out/aborted.txt ]] || { sleep 0.5 || true; kill -KILL "$running" 2>/dev/null || true; }
    sleep 0.5 || true
  done
  status=0
  wait "$running" || status=$?
  # A run that came to its end has written its verdict, whatever became of srun after that.
  now=$(summary)
  if [[ -n $now && $now != "$written" ]]; then
    verdict=$(sed -n '/^ *"exit_code": /{s/[^0-9]//gp;q}' "$out/summary.json")
    status=${verdict:-$status}
  fi
  latest=$(newest)
  idle=$((idle + 1))
  [[ $latest == "$before" && $status -ne 75 ]] || idle=0
  [[ $status -ne 0 && $status -ne 2 && $status -ne 75 && $cancelled == no ]] || break
  [[ -n $latest && $idle -lt 3 ]] || break
  if [[ $warned == yes ]] || ! all_answer; then
    status=75 # soon out of time, or without a node
    break
  fi
  [[ $cancelled == no ]] || break
  end_steps # ranks that have outlived a killed srun
  echo "the run ended with status $status; it goes on from $latest" >&2
done
trap - USR1 USR2 TERM INT
# On SIGTERM the watch's srun would wait for a node without power for KillWait seconds, and say so in the log. What it has
# started on the last node ends with the job.
[[ -z $watching ]] || { disown "$watching" && kill -KILL "$watching"; } 2>/dev/null || true

if [[ $status -eq 75 && $cancelled == no ]]; then
  [[ $idle -eq 0 ]] || echo "$idle" >"$out/attempts.txt" # on a full disk the job ends here
  scontrol requeue "$job"                                # ends this script
fi
exit "$status"
