#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks the interface for scripts (exit codes, summary.json, order of samples, checkpoints) with a separate checker.
set -euo pipefail
source_root=${SHOAL_SOURCE:-$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)}
checker=${SHOAL_SHARED:-$source_root/../shared}/contract/check_contract.py
if [[ ! -f $checker ]]; then
  echo "SKIPPED: $checker is missing (set SHOAL_SHARED)"
  exit 77
fi
exec python3 "$checker" "${SHOAL_BINARY:-$source_root/build/shoal}" --mpiexec "${SHOAL_MPIEXEC:-mpiexec}"
