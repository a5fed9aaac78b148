#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Submits jobscripts/pbs.sh to an emulated PBS Professional on two virtual nodes.
# shellcheck source=common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
requires ip:iproute2 unshare:util-linux mpiexec:mpich cc:gcc
up vcluster

# submit NAME [OPTION...]: runs one job to its end. Its log is $work/NAME.log; its exit status is returned.
submit() {
  local name=$1
  shift
  (cd "$work" && timeout 90 "$cluster/pbs-sim" qsub -W block=true -o "$work/$name.log" \
    -v "SHOAL,SHOAL_DECK,SHOAL_COMM_WAIT,SHOAL_OUT=$work/$name,SHOAL_OPTIONS=$*" "$source_root/jobscripts/pbs.sh") >/dev/null
}

submit run || fail "the job ended with status $?"
check_run "$work/run" 4

status=0
submit refused --train.steps=3 --train.stepz=3 || status=$?
[[ $status -eq 2 ]] || fail "an unknown option ended the job with status $status, not 2"
grep -q 'train.stepz' "$work/refused.log" || fail "no line names train.stepz"
echo "passed"
