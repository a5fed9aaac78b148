# SPDX-License-Identifier: Apache-2.0
"""Results of `shoal bench comm` for tests of what is predicted from them."""

# A network so slow that bytes decide: 1 MB/s between nodes, 10 MB/s within them.
NETWORK = {
    "format": "shoal-bench-comm",
    "format_version": 2,
    "machine": {"backend": "mpi"},
    "model": {
        "ranks_per_node": 2,
        "node": {"latency_s": 1e-5, "s_per_byte": 1e-7},
        "across": {"latency_s": 1e-4, "s_per_byte": 2e-6},
        "sum_s_per_byte": 1e-12,
        "quantization": {name: {"quantize_s": 1e-12, "dequantize_s": 1e-12} for name in ("int8", "int4")},
        "gflops": {"fp32": 100},
        "training": {"fp32": {"by_width": [{"n_embd": 32, "gflops": 100}], "update_s": 1e-12}},
    },
}
