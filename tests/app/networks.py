# SPDX-License-Identifier: Apache-2.0
"""Results of `shoal bench comm` for tests of what is predicted from them. plan_test's test_step_times_of_every_strategy predicts from a measured one, which costs 27 CPU seconds."""

import json

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


def written(folder, dtypes=("fp32", "bf16")):
    """A file with NETWORK, for models in these types."""
    training = dict.fromkeys(dtypes, NETWORK["model"]["training"]["fp32"])
    file = folder / "network.json"
    file.write_text(json.dumps({**NETWORK, "model": {**NETWORK["model"], "training": training}}))
    return file
