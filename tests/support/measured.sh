#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# measured.sh NAME COMMAND...: the command of a CTest entry. If SHOAL_CPU_LOG names a file, a line is added to it: the CPU seconds
# (user, system) that the entry and all processes which it started and waited for have used, its seconds, and its name.
name=$1
shift
[[ -n ${SHOAL_CPU_LOG:-} ]] || exec "$@"
TIMEFORMAT="%U %S %R $name"
{ time "$@" 2>&3; } 3>&2 2>>"$SHOAL_CPU_LOG"
