#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Measures what each strategy costs if links between nodes are slow: the same model on 4 nodes x 1 rank and 2 nodes x 2 ranks of a
# virtual cluster, at several link rates, strategies in turn. Arguments are passed to strategies_bench.py.
# shellcheck source=common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
requires ip:iproute2 tc:iproute2 unshare:util-linux cc:gcc
export VCLUSTER=$cluster/vcluster VCLUSTER_STATE=/run/shoal-strategies-$$ OMP_NUM_THREADS=1
log=$(mktemp)
trap '"$cluster/vcluster" down; rm -f "$log"' EXIT
trap 'exit 1' INT TERM
"$cluster/vcluster" up 4 >"$log" 2>&1 || { cat "$log"; fail "four virtual nodes did not come up"; }
fill_links 4
"$python" -B "$source_root/tests/cluster/strategies_bench.py" "$@"
