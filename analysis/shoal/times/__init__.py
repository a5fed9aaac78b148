# SPDX-License-Identifier: Apache-2.0
"""What computes times, bytes and costs from what was read."""
