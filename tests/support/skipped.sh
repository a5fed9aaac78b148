#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# skipped.sh REASON: stands for a test that this build lacks something for.
echo "SKIPPED: $1"
exit 77
