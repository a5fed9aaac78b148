#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compares what crosses the links of virtual nodes, by the links' counters, with theory, and measures whether large collectives fill
# the links, on 4 nodes x 1 rank, 2 x 2, 3 x 2 and 3 x 1. RATE: of a link, Gbit/s. NICE: niceness of the ranks.
# shellcheck source=common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
requires ip:iproute2 tc:iproute2 unshare:util-linux cc:gcc
rate=${RATE:-0.1}
export VCLUSTER_STATE=/run/shoal-links-$$ OMP_NUM_THREADS=1 # all nodes use the same cores
work=$(mktemp -d)
trap '"$cluster/vcluster" down; rm -rf "$work"' EXIT
trap 'exit 1' INT TERM
"$cluster/vcluster" up 4 --gbit "$rate" >"$work/up.log" 2>&1 || fail "four virtual nodes did not come up"
fill_links 4

# sent NODES: prints, a line per node, the bytes that it has sent over its link.
sent() {
  local i
  for i in $(seq "$1"); do "$cluster/vcluster" exec "node$i" cat /sys/class/net/eth0/statistics/tx_bytes; done
}

# measure NODES RANKS_PER_NODE COLLECTIVE MIB: one collective of this size over all ranks, with the counters before and after it.
measure() {
  local nodes=$1 each=$2 collective=$3 size=$4MiB
  local name="$1x$2 $3 $size"
  sent "$nodes" >"$work/$name.before"
  "$cluster/vcluster" run -n $((nodes * each)) --nodes "$(seq -s, -f 'node%g' "$nodes")" --timeout 60 -- \
    nice -n "${NICE:-0}" "$SHOAL" bench comm --only "$collective:tree" --groups all --min "$size" --max "$size" \
    --repetitions 8 --row-seconds 6 --output "$work/$name.json" >"$work/$name.log" 2>&1 || fail "$name did not run"
  sent "$nodes" >"$work/$name.after"
}

for collective in reduce_scatter all_gather; do
  measure 4 1 $collective 16
  measure 4 1 $collective 64 # in several batches of messages
  measure 2 2 $collective 16
  measure 3 2 $collective 16
  measure 3 1 $collective 48
done
"$python" -B "$source_root/tests/cluster/links.py" "$work" "$rate"
