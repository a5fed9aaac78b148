# SPDX-License-Identifier: Apache-2.0
"""What draws: figures, tables and pages."""
