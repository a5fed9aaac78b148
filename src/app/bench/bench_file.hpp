// SPDX-License-Identifier: Apache-2.0
// The result file of `shoal bench comm`, JSON: rank 0 writes it, `shoal plan` reads it.
//   program, version, format (shoal-bench-comm), format_version (2), machine {device, kind (train.device),
//   backend (comm.backend: mpi or nccl), libraries, threads}
//   topology {ranks, nodes, ranks_per_node (null if nodes differ), hosts, node_of}   by rank
//   rows [{collective, how, group, ranks, bytes, repetitions, operations_each, operations, min_s, median_s, max_s,
//     algorithm_bandwidth, bus_bandwidth (bytes/s), wrong, sent {intra, inter}}]        as in bench_comm.hpp
//   model (null if no link was measured)
//     {ranks_per_node, node, across {latency_s, s_per_byte, credit_bytes, worst_deviation} or null, sum_s_per_byte,
//     quantization {int8, int4: {quantize_s, dequantize_s}}                          s per element
//     gflops {dtype: n}, training {dtype: {by_width [{n_embd, gflops}], update_s      per rank while all work
//       speedup {node_alone, rank_alone}}}}                       how many times that, if only these work
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "app/bench/machine_model.hpp"

namespace shoal::app {

void write_bench_file(const std::filesystem::path& file, const comm::Topology& topology,
                      const std::map<std::string, std::string>& machine, const std::vector<CommRow>& rows,
                      const std::optional<MachineModel>& model);

/// Reads the model. `option` names the file in messages (bad input).
MachineModel read_bench_file(const std::filesystem::path& file, const std::string& option);

}  // namespace shoal::app
