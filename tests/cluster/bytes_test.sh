#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs strategies on virtual nodes and compares what crosses the links, by the links' counters, with the program's own figures.
# Arguments are passed to bytes_on_links.py.
# shellcheck source=common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
requires ip:iproute2 tc:iproute2 unshare:util-linux cc:gcc
export VCLUSTER=$cluster/vcluster VCLUSTER_STATE=/run/shoal-bytes-$$ OMP_NUM_THREADS=1
work=$(mktemp -d)
trap '"$cluster/vcluster" down; rm -rf "$work"' EXIT
trap 'exit 1' INT TERM
"$VCLUSTER" up 4 --gbit 0 >"$work/up.log" 2>&1 || fail "four virtual nodes did not come up"
"$python" -B "$source_root/tests/cluster/bytes_on_links.py" "$work" "$@" || fail "links and counters do not agree"
