# SPDX-License-Identifier: Apache-2.0
"""What reads the files of runs, studies and tokens."""
