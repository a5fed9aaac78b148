# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Functions for the tests in this folder: virtual nodes, a tiny deck, and checks of the files that a job left.
# They need root, and the tools of a virtual cluster in $SHOAL_SHARED/cluster (default: shared/ beside the source tree).
set -euo pipefail

source_root=${SHOAL_SOURCE:-$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)}
cluster=${SHOAL_SHARED:-$source_root/../shared}/cluster
python=${SHOAL_PYTHON:-/usr/bin/python3}
export SHOAL=${SHOAL_BINARY:-$source_root/build/shoal}
export SHOAL_COMM_WAIT=sleep # all nodes use the same cores

fail() {
  echo "FAILED: $*"
  if [[ -d ${work:-} ]]; then tail -n 40 "$work"/*.log 2>/dev/null || true; fi
  exit 1
}

# In CI, if the tools are there, a skipped test is a failure, unless its packages cannot be installed.
skip() {
  if [[ ${CI:-} == true && -d $cluster && ${1:-} != packages ]]; then fail "must not be skipped here: $2"; fi
  echo "SKIPPED: $2"
  exit 77
}

# requires COMMAND:PACKAGE...
requires() {
  local pair missing=()
  [[ -d $cluster ]] || skip tools "no virtual cluster: $cluster is missing (set SHOAL_SHARED)"
  [[ $(id -u) -eq 0 ]] || skip root "a virtual cluster needs root"
  export PATH=$PATH:/usr/sbin
  for pair in "$@"; do command -v "${pair%%:*}" >/dev/null || missing+=("${pair##*:}"); done
  if [[ ${#missing[@]} -gt 0 && ${CI:-} == true ]]; then
    apt-get install -y --no-install-recommends "${missing[@]}" >/dev/null 2>&1 && return
  fi
  [[ ${#missing[@]} -eq 0 ]] || skip packages "needs packages: ${missing[*]}"
}

# fill_links NODES: selects a TCP that fills shaped links. In links_bench.sh Reno reaches the full rate, headers included. BBR, the
# default of many kernels, reached 0.84 to 0.98 of it, because flows to several nodes alternate.
fill_links() {
  local i
  for i in $(seq "$1"); do "$cluster/vcluster" exec "node$i" sysctl -q net.ipv4.tcp_congestion_control=reno; done
}

# up TOOL [NODES [OPTION...]]: starts two nodes, or so many, with a state directory for this test, and stops them when the test
# ends in any way.
up() {
  export VCLUSTER_STATE=/run/shoal-test-$$
  work=$(mktemp -d)
  trap '"$cluster/vcluster" down; rm -rf "$work"' EXIT
  trap 'exit 1' INT TERM
  "$cluster/$1" up "${2:-2}" "${@:3}" >"$work/up.log" 2>&1 || fail "${2:-2} virtual nodes did not come up"
  export SHOAL_DECK=$work/tiny.cfg
  cat >"$SHOAL_DECK" <<'DECK'
[model]
n_layer    = 2
n_head     = 2
n_embd     = 32
block_size = 32
[batch]
micro      = 2
global     = 8
[train]
steps      = 3
DECK
}

# program_for_gpus FILE: writes a program that takes the place of one for GPUs in a script. It fails unless it is started as one,
# prints the threads, the GPUs to which its rank is restricted and the number of its cores, and trains on processors.
program_for_gpus() {
  cat >"$1" <<PROGRAM
#!/usr/bin/env bash
[[ \$3 == --train.device=cuda ]] || { echo "not for GPUs: \$*"; exit 9; }
echo "threads: \$OMP_NUM_THREADS, GPUs: \${CUDA_VISIBLE_DEVICES:-none}, cores: \${SLURM_CPUS_PER_TASK:-\$(nproc)}"
exec "$SHOAL" "\$1" "\$2" "\${@:4}"
PROGRAM
  chmod +x "$1"
}

# check_run DIR RANKS: fails unless the run in DIR ended well, on RANKS ranks distributed over both nodes.
check_run() {
  "$python" - "$1" "$2" "$source_root/analysis" <<'PYTHON' || fail "the run in $1 is not what was submitted"
import json
import pathlib
import sys

out, ranks = pathlib.Path(sys.argv[1]), int(sys.argv[2])
summary = json.loads((out / "summary.json").read_text())
assert summary["world_size"] == ranks, f"world_size is {summary['world_size']}, not {ranks}"
assert [step for step, _ in summary["losses"]] == [1, 2, 3], summary["losses"]
sent = summary["comm_bytes_per_step"].values()
for where in ("intra", "inter"):
    assert sum(operation[where] for operation in sent) > 0, f"no bytes were sent {where}-node: {summary['comm_bytes_per_step']}"
try:
    import h5py  # noqa: F401
except ImportError:
    print("no h5py: the hosts in the trace were not checked")
else:
    sys.path.insert(0, sys.argv[3])
    from shoal.read.trace import Trace

    hosts = Trace.read(out).hosts
    assert hosts == ["node1"] * (ranks // 2) + ["node2"] * (ranks // 2), f"hosts by rank: {hosts}"
PYTHON
}
