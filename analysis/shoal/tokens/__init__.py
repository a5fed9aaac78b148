# SPDX-License-Identifier: Apache-2.0
"""What the ids of a tokenizer mean."""
