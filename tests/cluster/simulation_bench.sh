#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compares steps that SimGrid simulates (`shoal plan --trace-out`) with steps measured on virtual nodes with slow links. Arguments
# are passed to simulation_bench.py.
# shellcheck source=common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
requires ip:iproute2 tc:iproute2 unshare:util-linux cc:gcc smpirun:libsimgrid-dev
export VCLUSTER=$cluster/vcluster VCLUSTER_STATE=/run/shoal-simulation-$$ OMP_NUM_THREADS=1
log=$(mktemp)
trap '"$cluster/vcluster" down; rm -f "$log"' EXIT
trap 'exit 1' INT TERM
"$cluster/vcluster" up 4 >"$log" 2>&1 || { cat "$log"; fail "four virtual nodes did not come up"; }
fill_links 4
"$python" -B "$source_root/tests/cluster/simulation_bench.py" "$@"
