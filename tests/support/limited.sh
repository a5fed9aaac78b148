#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# limited.sh LIMIT COMMAND...: runs a test as on a processor that has only the instructions of ONEDNN_MAX_CPU_ISA=LIMIT. Skips if
# this processor has no more than these, because the test is run without a limit, too.
set -euo pipefail
# shellcheck source=limits.sh
. "$(dirname "$0")/limits.sh"
limit=$1
shift
if why=$(lacks "$limit"); then
  echo "SKIPPED: $why"
  exit 77
fi
ONEDNN_MAX_CPU_ISA=$limit exec "$@"
