# SPDX-License-Identifier: Apache-2.0
"""The modules of the programs in analysis/."""
