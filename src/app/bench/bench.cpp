// SPDX-License-Identifier: Apache-2.0
// shoal bench comm: times every collective by message size, fits a model to it, and writes a file for `shoal plan`.
// shoal bench tiers: reads and writes of a local disk, as runs make them whose states wait there.
#include <cstdio>
#include <filesystem>
#include <optional>

#include "app/bench/bench_comm.hpp"
#include "app/bench/bench_file.hpp"
#include "app/bench/bench_tiers.hpp"
#include "app/bench/machine_model.hpp"
#include "app/setup/device_start.hpp"
#include "app/setup/threads.hpp"
#include "app/support/collective.hpp"
#include "app/support/command.hpp"
#include "app/support/library_versions.hpp"
#include "app/support/own_results.hpp"
#include "app/support/text_table.hpp"
#include "app/support/version.hpp"
#include "shoal/base/counted.hpp"
#include "shoal/base/notation.hpp"
#include "shoal/config/value.hpp"
#include "shoal/device/kind.hpp"
#include "shoal/io/file_system.hpp"
#include "shoal/kernels/runtime.hpp"

namespace shoal::app {

namespace {

/// The items of a list with commas.
std::vector<std::string> items_of(const std::string& list) {
  std::vector<std::string> items;
  for (std::size_t begin = 0; begin < list.size();) {
    const std::size_t comma = std::min(list.find(',', begin), list.size());
    items.push_back(list.substr(begin, comma - begin));
    begin = comma + 1;
  }
  return items;
}

CommBenchOptions bench_options(const config::Invocation& invocation) {
  CommBenchOptions options;
  options.min_bytes = parse_bytes(invocation.own<std::string>("min"), "--min");
  options.max_bytes = parse_bytes(invocation.own<std::string>("max"), "--max");
  require_input(options.min_bytes <= options.max_bytes, "--min ", invocation.own<std::string>("min"), " is above --max ",
                invocation.own<std::string>("max"));
  options.factor = invocation.own<std::uint64_t>("factor");
  options.repetitions = invocation.own<std::uint64_t>("repetitions");
  options.warm_up = invocation.own<std::uint64_t>("warm-up");
  options.row_seconds = invocation.own<double>("row-seconds");
  options.collectives = items_of(invocation.own<std::string>("only"));
  options.groups = items_of(invocation.own<std::string>("groups"));
  return options;
}

/// comm.backend as it is; a barrier is MPI's in any case.
std::string backend_of(comm::World& world) {
  return name_of(world.all().queued() ? comm::Backend::nccl : comm::Backend::mpi);
}

void print_head(comm::World& world, int threads) {
  print_table(
      text("shoal ", version(), ": bench comm"),
      {{"ranks", text(world.size(), " on ", comm::describe(world.topology()))},
       {"device", text(kernels::device_name(), ", ", counted(threads, "thread"), " each")},
       {"messages", text("by ", backend_of(world), " (comm.backend)")},
       {"time", "of one operation (ping-pong: one way) on the slowest rank; least, median and most of the repetitions"},
       {"bandwidth", "algbw: bytes of all ranks' blocks / median time; busbw: load of a rank's link (as in nccl-tests)"}});
  std::printf("#%-16s  %-6s  %-6s %6s %10s %7s %11s %11s %11s %11s %11s %6s\n", "collective", "how", "group", "ranks",
              "bytes", "reps", "min us", "median us", "max us", "algbw MB/s", "busbw MB/s", "wrong");
  std::fflush(stdout);
}

void print_row(const CommRow& row) {
  const std::string reps = text(row.repetitions, "x", row.operations_each);
  std::printf(" %-16s  %-6s  %-6s %6d %10zu %7s %11.1f %11.1f %11.1f %11.1f %11.1f %6llu\n", row.collective.c_str(),
              row.how.c_str(), row.group.c_str(), row.ranks, row.bytes, reps.c_str(), row.min_s * 1e6, row.median_s * 1e6,
              row.max_s * 1e6, row.algorithm_bandwidth * 1e-6, row.bus_bandwidth * 1e-6,
              static_cast<unsigned long long>(row.wrong));
  std::fflush(stdout);
}

std::string link_text(const std::optional<plan::Link>& link, double deviation) {
  if (!link) return "not measured: needs all_gather:tree in at least two sizes";
  return text(fixed(link->latency_s * 1e6, 1), " us per exchange + ", fixed(link->s_per_byte * 1e9, 3),
              " ns per byte that a rank sends (", fixed(1e-6 / link->s_per_byte, 0), " MB/s); the fit deviates by up to ",
              fixed(100 * deviation, 0), " %");
}

std::string codec_text(const plan::Codec& codec) {
  return text(fixed(codec.quantize_s * 1e9, 2), " + ", fixed(codec.dequantize_s * 1e9, 2));
}

std::string training_text(const plan::TrainingRates& rates) {
  std::string by_width;
  for (const auto& [width, gflops] : rates.gflops) {
    by_width += text(by_width.empty() ? "" : ", ", fixed(gflops, 1), " at n_embd ", width);
  }
  return text(by_width, " GFLOP/s per rank; updates ", fixed(rates.update_s * 1e9, 2), " ns per element");
}

void print_model(const std::optional<MachineModel>& measured, bool several_nodes) {
  if (!measured) return print_table("no model for `shoal plan`", {{"links", link_text({}, 0)}});
  TextRows rows;
  const MachineModel& model = *measured;
  const auto& network = model.network;
  if (network.ranks_per_node > 1) rows.emplace_back("within nodes", link_text(network.node, model.node_deviation));
  if (several_nodes) rows.emplace_back("across nodes", link_text(network.across, model.across_deviation));
  rows.emplace_back("sums", text(fixed(network.sum_s_per_byte * 1e9, 3), " ns per byte"));
  rows.emplace_back("quantization", text("INT8 ", codec_text(network.int8), ", INT4 ", codec_text(network.int4),
                                         " ns per element (to codes + back)"));
  for (const auto& [dtype, gflops] : model.gflops)
    rows.emplace_back("cores, " + dtype, text("at most ", fixed(gflops, 0), " GFLOP/s per rank"));
  for (const auto& [dtype, rates] : model.training) rows.emplace_back("training, " + dtype, training_text(rates));
  print_table("the model, measured with all ranks at work", rows);
}

/// Options of the other benchmark would be without effect.
void refuse_options(const config::Invocation& invocation, const std::string& what, const std::vector<std::string>& others) {
  for (const std::string& option : others) {
    require_input(invocation.places.of(option).empty(), "bench ", what, ": --", option, " has no effect");
  }
}

Exit bench_disk(comm::World& world, config::Invocation& invocation) {
  refuse_options(invocation, "tiers", {"min", "max", "factor", "repetitions", "row-seconds", "warm-up", "only", "groups"});
  const io::NvmeOptions& options = invocation.options.nvme;
  require_input(!options.dir.empty(), "bench tiers measures a local disk; it needs a directory there in --nvme.dir");
  const std::size_t bytes = parse_bytes(invocation.own<std::string>("size"), "--size");
  const std::filesystem::path file = invocation.own<std::string>("output");
  on_rank_0(world.all(), [&] { require_result("--output ", file, own_tiers(), invocation.options.output.overwrite); });
  const bool prints = world.rank() == 0;
  if (prints) {
    print_table(text("shoal ", version(), ": bench tiers"),
                {{"ranks", text(world.size(), " on ", comm::describe(world.topology()), ", all at the same time")},
                 {"disk", text(options.dir, " (", io::file_system_of(options.dir), "): each rank writes and reads ",
                               invocation.own<std::string>("size"))}});
    std::printf("#%12s %6s %14s %14s\n", "request", "depth", "write MB/s", "read MB/s");
  }
  const TierBench measured = bench_tiers(world, options, bytes, [&](const TierRow& row) {
    if (!prints) return;
    std::printf(" %12s %6zu %14.0f %14.0f\n", bytes_text(row.request_bytes).c_str(), row.depth, row.write_rate * 1e-6,
                row.read_rate * 1e-6);
    std::fflush(stdout);
  });
  if (prints) {
    std::printf("# rates of the slowest rank, by %s%s; nvme.block_mb is the request, nvme.queue_depth the depth\n",
                name_of(measured.access), measured.direct ? ", past the system's cache" : "");
    for (const std::string& warning : measured.warnings) std::fprintf(stderr, "shoal: warning: %s\n", warning.c_str());
  }
  on_rank_0(world.all(), [&] {
    if (!file.empty()) write_tiers_file(file, world, options.dir, measured);
  });
  return Exit::done;
}

Exit bench(comm::World& world, config::Invocation& invocation) {
  const std::string& what = invocation.arguments.at(0);
  if (what == "tiers") return bench_disk(world, invocation);
  require_input(what == "comm", "bench ", what, ": no such benchmark; allowed: comm, tiers");
  refuse_options(invocation, "comm", {"size"});
  require_input(
      world.size() > 1,
      "bench comm measures communication between ranks, but there is one rank; start it as `mpiexec -n RANKS shoal ...`");
  const CommBenchOptions options = bench_options(invocation);
  const std::filesystem::path file = invocation.own<std::string>("output");
  on_rank_0(world.all(), [&] { require_result("--output ", file, own_bench(), invocation.options.output.overwrite); });
  const int threads = choose_threads(world, invocation.options.train.threads);
  open_device(world);
  const kernels::Runtime runtime(threads);
  const bool prints = world.rank() == 0;
  if (prints) print_head(world, threads);
  const std::vector<CommRow> rows = bench_comm(world, options, [&](const CommRow& row) {
    if (prints) print_row(row);
  });
  const std::optional<MachineModel> model = machine_model(world, rows);
  if (prints) print_model(model, world.nodes() > 1);

  std::map<std::string, std::string> machine = {{"device", kernels::device_name()},
                                                {"kind", name_of(device::kind())},
                                                {"backend", backend_of(world)},
                                                {"threads", std::to_string(threads)}};
  for (const auto& [name, library] : library_versions()) machine[name] = library;
  on_rank_0(world.all(), [&] {
    if (!file.empty()) write_bench_file(file, world.topology(), machine, rows, model);
  });
  std::uint64_t wrong = 0;
  for (const CommRow& row : rows) wrong += row.wrong;
  if (wrong > 0)
    throw Error(Exit::failed, Seen::everywhere, text(counted(wrong, "wrong element"), ": see the table's last column"));
  return Exit::done;
}

}  // namespace

Command bench_command() {
  using config::any;
  using config::at_least;
  const auto size = config::not_empty().as("a size with its unit, as 256B or 16MiB");
  return {{.name = "bench",
           .summary = "measure this machine: `bench comm` times collectives by message size, `bench tiers` a local disk",
           .arguments = {"comm|tiers"},
           .checks = false,
           .own = {{"min", std::string("256B"), "", size, "smallest message, all blocks together"},
                   {"max", std::string("16MiB"), "", size, "largest message"},
                   {"factor", std::uint64_t{4}, "", at_least(2), "ratio of one size to the one before"},
                   {"repetitions", std::uint64_t{20}, "", at_least(1), "at most this many timings per row"},
                   {"row-seconds", 0.3, "s", config::above(0), "stop a row after this time, but not before 3 timings"},
                   {"warm-up", std::uint64_t{1}, "operations", at_least(1), "untimed operations before the first timing"},
                   {"only", std::string{}, "", any().as("a list, as all_gather:tree,reduce_scatter"),
                    "collectives to measure; default: all"},
                   {"groups", std::string{}, "", any().as("a list of node, across, all"),
                    "among the ranks of a node (node), between nodes (across), among all ranks (all); default: node and "
                    "across, and all if it "
                    "differs from both"},
                   {"size", std::string("256MiB"), "", size, "tiers: what each rank writes and reads"},
                   {"output", std::string{}, "", any().as("the path of a new file"),
                    "write what was measured; comm: for `shoal plan --network FILE`"}}},
          bench};
}

}  // namespace shoal::app
