# SPDX-License-Identifier: Apache-2.0
"""Whether a hang was reported in time, by the report's own words: the time until a run has ended contains the start and the
end of all ranks, which take long on a busy machine. tests/support/hang_reported.hpp does the same."""

import re

# Reports come at most this long after comm.timeout, as a fraction of it: Inquiry::longest_s() in src/comm/hang/inquiry.hpp.
LONGEST_AFTER_TIMEOUT = 0.7625


def assert_reported_in_time(test, said, timeout):
    """said: contains "rank 1 (...) has shown no sign of life for 2 s" or "rank 0 has waited 2 s". Its seconds, which are rounded
    down, begin when the rank fell silent or began to wait."""
    found = re.search(r"shoal: .*(?:shown no sign of life for|has waited) (\d+) s", said)
    test.assertIsNotNone(found, said)
    test.assertGreater(int(found[1]), timeout - 1, said)
    test.assertLessEqual(int(found[1]), (1 + LONGEST_AFTER_TIMEOUT) * timeout, said)
    for limit in re.findall(r"\(comm\.timeout = ([0-9.]+)\)", said):
        test.assertEqual(float(limit), timeout, said)


if __name__ == "__main__":
    raise SystemExit("a module of the tests; run one of them")
