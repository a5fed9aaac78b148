# SPDX-License-Identifier: Apache-2.0
"""Seeds of tests that draw at random."""

import os
import random
import subprocess

from program import SOURCE


def seed(nightly):
    """The seed of a test, which prints it; SHOAL_SEED repeats one. In CI it follows from the commit, because whether a commit
    passes must not be chance. The night and runs by hand draw a new one each time."""
    given = os.environ.get("SHOAL_SEED")
    if given:
        return int(given)
    if os.environ.get("CI") == "true" and not nightly:
        head = subprocess.run(
            ["git", "-C", SOURCE, "rev-parse", "HEAD"], capture_output=True, text=True, check=True
        ).stdout
        return int(head[:8], 16)
    return random.SystemRandom().randrange(2**32)


if __name__ == "__main__":
    raise SystemExit("a module of the tests; run one of them")
