#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# All ranks of three nodes hang, and the rank of the fourth is at work and asks nobody. Each node knows only of its own ranks, but
# one report is printed, and the run ends on all nodes.
# shellcheck source=common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
requires ip:iproute2 unshare:util-linux cc:gcc mpiexec:mpich
up vcluster 4
status=0
"$cluster/vcluster" run -n 4 --ppn 1 --timeout 150 -- "$SHOAL" train "$SHOAL_DECK" --output.dir="$work/run" --comm.timeout=5 \
  --fault.kind=slow@2:0,slow@2:0,slow@2:0,hang@2:1,hang@2:2,hang@2:3 >"$work/run.log" 2>&1 || status=$?
[[ $status -eq 1 ]] || fail "the run ended with status $status, not 1"
reports=$(grep -c "^shoal: .* shown no sign of life for" "$work/run.log" || true)
[[ $reports -eq 1 ]] || fail "$reports reports, not one"
grep -q "^shoal: rank 1 (node2, .* in phase step" "$work/run.log" || fail "the report is not that of the first node that hangs"
echo "passed"
