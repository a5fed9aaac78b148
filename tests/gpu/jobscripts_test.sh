#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The job scripts for GPUs, with stand-ins for srun, scontrol and mpiexec, which write down how they were called: no cluster
# with GPUs is at hand. $SHOAL_SOURCE is the source tree.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin"
for command in srun scontrol mpiexec; do
  # shellcheck disable=SC2016  # the stand-ins expand it
  printf '#!/usr/bin/env bash\nprintf "%%s\\n" "$(basename "$0")" "$@" >>"$CALLS"\n[[ $(basename "$0") == scontrol ]] || exit "${ENDS_WITH:-0}"\n' \
    >"$work/bin/$command"
done
chmod +x "$work/bin"/*
unset SHOAL_MPIEXEC # the tests set it
export PATH=$work/bin:$PATH CALLS=$work/calls SHOAL=/programs/shoal SHOAL_DECK=/decks/a.cfg
failed=0

# called WORD...: each of them was an argument of a call, or the name of a command.
called() {
  for word in "$@"; do
    if ! grep -qxF -- "$word" "$CALLS"; then
      printf '"%s" is missing in:\n%s\n' "$word" "$(<"$CALLS")" >&2
      failed=1
    fi
  done
  rm "$CALLS"
}
common=(/programs/shoal train /decks/a.cfg --train.device=cuda)

slurm=(env SLURM_SUBMIT_DIR="$work" SLURM_JOB_ID=17 SLURM_CPUS_PER_TASK=6 "$SHOAL_SOURCE/jobscripts/slurm_gpu.sh")
"${slurm[@]}" --batch.global=64
called srun "${common[@]}" --mpi=pmi2 --cpus-per-task=6 --gpu-bind=none --output.dir="$work/runs/17" --batch.global=64

mkdir -p "$work/runs/17" && touch "$work/runs/17/run.json"
status=0
ENDS_WITH=75 "${slurm[@]}" || status=$?
[[ $status -eq 75 ]] || { echo "a run that stopped early ended the job with $status" >&2; failed=1; }
called srun "${common[@]}" --checkpoint.resume=latest scontrol requeue 17

printf 'a\na\nb\nb\n' >"$work/nodes"
env PBS_O_WORKDIR="$work" PBS_JOBID=18.server PBS_NODEFILE="$work/nodes" SHOAL_OPTIONS="--train.steps=3 --train.seed=5" \
  "$SHOAL_SOURCE/jobscripts/pbs_gpu.sh"
called mpiexec -n 4 core:8 "${common[@]}" --output.dir="$work/runs/18" --train.steps=3 --train.seed=5
exit "$failed"
