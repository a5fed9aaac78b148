#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# changed.sh: prints the files that this change touches, a line each; "everything" if that cannot be known. Each merged change
# increments .ci/changes, so the change before this one ends at the last but one commit that wrote that file. SHOAL_BASE names
# another commit to compare with. changed.sh --base: prints that commit.
set -euo pipefail
cd "$(dirname "$0")/.."
base=${SHOAL_BASE:-$(git log -2 --format=%H -- .ci/changes | sed -n 2p)}
if [[ -z $base ]] || ! git cat-file -e "$base^{commit}" 2>/dev/null; then
  [[ ${1:-} == --base ]] || echo everything
  exit
fi
if [[ ${1:-} == --base ]]; then
  echo "$base"
  exit
fi
{
  git diff --name-only "$base"
  git ls-files --others --exclude-standard
} | sort -u
