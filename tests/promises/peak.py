# SPDX-License-Identifier: Apache-2.0
"""peak.py DIRECTORY COMMAND...: runs a command and writes its largest resident set, as the kernel counts it, in bytes,
to a new file in the directory. Ends with the exit code of the command."""

import os
import sys
import tempfile

directory, *command = sys.argv[1:]
child = os.fork()
if child == 0:
    os.execvp(command[0], command)
_, status, usage = os.wait4(child, 0)
with tempfile.NamedTemporaryFile("w", dir=directory, suffix=".peak", delete=False) as file:
    file.write(str(usage.ru_maxrss * 1024))
sys.exit(os.waitstatus_to_exitcode(status) & 0xFF)
