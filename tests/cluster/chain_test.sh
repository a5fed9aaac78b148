#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Jobs of jobscripts/slurm.sh that are stopped: by signals of every kind, by the warning before the time limit, by scancel. A
# chain of requeued jobs has the bits of one uninterrupted run. A task of an array is requeued alone.
# shellcheck source=common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
requires ip:iproute2 unshare:util-linux slurmctld:slurm-wlm slurmd:slurm-wlm sbatch:slurm-wlm munged:munge cc:gcc mpiexec:mpich
up vslurm
slurm() { "$cluster/vslurm" exec "$@"; }
state() { slurm scontrol show job "$1" | grep -oE 'JobState=[A-Z_]+'; }

# until SECONDS COMMAND...: waits until the command succeeds.
until_so() {
  local end=$((SECONDS + $1))
  shift
  until "$@"; do
    [[ $SECONDS -lt $end ]] || fail "in vain: $*"
    sleep 0.2
  done
}
steps() { wc -l 2>/dev/null <"$work/$1/metrics.jsonl" || echo 0; }
# shellcheck disable=SC2317  # called by until_so
more_steps() { [[ $(steps "$1") -gt $2 ]]; }
# shellcheck disable=SC2317
is() { [[ $(state "$1") == "JobState=$2" ]]; }
# shellcheck disable=SC2317
said() { [[ $(grep -csE "$2" "$work/$1.log") -ge $3 ]]; }

# submit NAME [OPTION OF SBATCH...] -- [OPTION...]: prints the job's number.
submit() {
  local name=$1 options=()
  shift
  while [[ $1 != -- ]]; do
    options+=("$1")
    shift
  done
  shift
  SHOAL_OUT=$work/$name slurm sbatch --parsable --output="$work/$name.log" --chdir="$work" "${options[@]}" \
    "$source_root/jobscripts/slurm.sh" "$@"
}

# The chain: the shell alone gets the signal, then the ranks alone, then both.
number=4000
job=$(submit chain --time=10 -- --train.steps=$number)
legs=0
for kind in "--batch --signal=USR1" "--signal=USR2" "--full --signal=USR1"; do
  [[ $legs -eq 0 ]] || until_so 90 said chain "resumed from" $legs
  legs=$((legs + 1))
  until_so 90 more_steps chain $(($(steps chain) + 20))
  # shellcheck disable=SC2086
  slurm scancel $kind "$job"
  until_so 60 said chain "stopped by SIGUSR[12] after step" $legs
  grep -q "stopped by SIG${kind##*=} after step" "$work/chain.log" || fail "$kind: another signal stopped the run"
done
"$cluster/vslurm" wait "$job" --timeout 480 >/dev/null || fail "the chain did not complete: $(state "$job")"
slurm scontrol show job "$job" | grep -q "Restarts=$legs " || fail "not $legs restarts"
"$cluster/vcluster" run -n 4 --ppn 2 --timeout 480 -- "$SHOAL" train "$SHOAL_DECK" --train.steps=$number \
  --output.dir="$work/straight" >"$work/straight.log" || fail "the uninterrupted run failed"
"$python" - "$work" $number <<'PYTHON' || fail "the chain has other bits than the uninterrupted run"
import json
import pathlib
import sys

work, number = pathlib.Path(sys.argv[1]), int(sys.argv[2])
chain, straight = work / "chain", work / "straight"
losses = [[(line["step"], line["loss"]) for line in map(json.loads, (run / "metrics.jsonl").open())] for run in (chain, straight)]
assert len(losses[0]) == number
assert losses[0] == losses[1]
checksums = [json.loads((run / "summary.json").read_text())["params_checksum"] for run in (chain, straight)]
assert checksums[0] == checksums[1], checksums
PYTHON

# A job that is cancelled has a checkpoint, and is not requeued.
job=$(submit cancelled --time=5 -- --train.steps=1000000)
until_so 90 more_steps cancelled 20
slurm scancel "$job"
until_so 60 said cancelled "stopped by SIGTERM after step .* complete" 1
until_so 60 is "$job" CANCELLED

# An array sweeps: task K takes the options of line K.
printf '%s\n' --optimizer.lr=0.25 '--optimizer.lr=0.5 --train.seed=5' >"$work/sweep.txt"
job=$(SHOAL_SWEEP=$work/sweep.txt submit sweep --time=5 --array=1-2 --)
for task in "1 0.25" "2 0.5"; do
  until_so 60 test -f "$work/sweep/${task% *}/summary.json"
  grep -q "\"optimizer.lr\": \"${task#* }\"" "$work/sweep/${task% *}/summary.json" || fail "task ${task% *} has other options"
done

# Of an array, one task stops and goes back into the queue. It is the one that has the number of the array, which for SLURM
# means all tasks; the other must not notice.
job=$(submit array --time=10 --array=1-2 --output="$work/array-%a.log" -- --train.steps=1000000)
for task in 1 2; do until_so 90 more_steps array/$task 20; done
task=$(slurm scontrol --oneliner show job "$job" | grep -oP "^JobId=$job .*ArrayTaskId=\K[12](?= )") ||
  fail "no task has the number of the array"
other=$((3 - task))
slurm scancel --batch --signal=USR1 "${job}_$task"
until_so 60 said "array-$task" "stopped by SIGUSR1 after step .* complete" 1
until_so 90 said "array-$task" "resumed from" 1
slurm scontrol show job "${job}_$task" | grep -q "Restarts=1 " || fail "task $task was not restarted once"
slurm scontrol show job "${job}_$other" | grep -q "Restarts=0 " || fail "task $other was restarted, too"
until_so 60 more_steps "array/$other" "$(steps "array/$other")"
! said "array-$other" "stopped by|resumed from" 1 || fail "task $other did not go on undisturbed"
slurm scancel "$job"

# The warning before the time limit. SLURM looks at the clocks of jobs every half minute.
job=$(submit clock --time=1 --signal=B:USR1@45 -- --train.steps=1000000)
until_so 90 said clock "stopped by SIGUSR1 after step .* complete" 1
until_so 90 said clock "resumed from" 1
echo "passed"
