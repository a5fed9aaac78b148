#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Submits jobscripts/slurm.sh, and what `shoal jobscript` makes of it, to a real SLURM on two virtual nodes.
# shellcheck source=common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
requires ip:iproute2 unshare:util-linux slurmctld:slurm-wlm slurmd:slurm-wlm sbatch:slurm-wlm munged:munge cc:gcc
up vslurm 2 --gpus 2

# submit NAME [OPTION...]: runs one job to its end. Its log is $work/NAME.log; its exit code is returned. `asked`: options of sbatch.
asked=()
submit() {
  local name=$1 job record
  shift
  job=$(SHOAL_OUT=$work/$name "$cluster/vslurm" exec sbatch --parsable --time=5 --output="$work/$name.log" \
    --chdir="$work" "${asked[@]}" "$source_root/jobscripts/slurm.sh" "$@")
  record=$("$cluster/vslurm" wait "$job" --timeout 90) || true
  [[ $record =~ ExitCode=([0-9]+):([0-9]+) ]] || fail "job $name: no exit code in its record: $record"
  return "${BASH_REMATCH[1]}"
}

submit run || fail "the job ended with status $?"
check_run "$work/run" 4

# With GPUs, in the ways that SLURM has to ask for them. Each of the 4 ranks may use both GPUs of its node: SLURM
# names both (0,1) or, as 22.05 does with --gpu-bind=none, restricts none. Variables of the job by which this one is submitted do
# not matter.
program_for_gpus "$work/for_gpus"
for how in --gpus-per-node=2 --gpus=4 --gpus-per-task=1 --gres=gpu:2; do
  asked=("$how" --cpus-per-task=2)
  SHOAL=$work/for_gpus submit "gpus$how" || fail "the job with $how ended with status $?"
  check_run "$work/gpus$how" 4
  [[ $(grep -cxE 'threads: 1, GPUs: (none|0,1), cores: 2' "$work/gpus$how.log") -eq 4 ]] ||
    fail "$how: not 4 ranks with one thread, both GPUs and two cores"
done
asked=(--gpus-per-node=2)
status=0
submit gpus_refused || status=$?
[[ $status -eq 2 ]] || fail "a program for processors ended a job with GPUs with status $status, not 2"
grep -q 'train.device = cuda' "$work/gpus_refused.log" || fail "no line says that the program is not for GPUs"
asked=()
SLURM_GPUS=4 SLURM_GPUS_ON_NODE=2 SLURM_JOB_GPUS=0,1 CUDA_VISIBLE_DEVICES=0,1 submit without_gpus ||
  fail "a job without GPUs, submitted by one with GPUs, ended with status $?"

# What `shoal jobscript` writes. It names the program and the deck itself.
"$SHOAL" jobscript "$SHOAL_DECK" --nodes 2 --ranks-per-node 2 --time 00:05:00 --output "$work/written.sh"
(unset SHOAL SHOAL_DECK && SHOAL_OUT=$work/written timeout 90 "$cluster/vslurm" exec sbatch -W --output="$work/written.log" \
  --chdir="$work" "$work/written.sh") >/dev/null || fail "the script of shoal jobscript ended with status $?"
check_run "$work/written" 4

# Without PMI every task believes to be rank 0 of 1. The program refuses such a world before it writes anything.
status=0
SHOAL_SRUN_MPI=none submit alone || status=$?
[[ $status -eq 2 ]] || fail "a world that is not SLURM_NTASKS ended with status $status, not 2"
grep -q '^shoal: .*SLURM_NTASKS' "$work/alone.log" || fail "no line names SLURM_NTASKS"
[[ ! -e $work/alone/summary.json ]] || fail "a run of one rank was made of each task"
echo "passed"
