// SPDX-License-Identifier: Apache-2.0
// Options that change where and how a training is computed, and what it writes: zero, comm, sync, activation, offload, nvme,
// memory, checkpoint, trace, output, fault.
#include "rows.hpp"

namespace shoal::config {

using comm::CommOptions;
using model::ActivationOptions;
using sync::SyncOptions;
using zero::ZeroOptions;

namespace {

constexpr double most_ranks = 1048576, most_steps = 4294967295;
constexpr const char* megabytes = "10^6 bytes";

/// off, node, or a number.
Binding hpz_size() {
  constexpr std::size_t node = ZeroOptions::whole_node;
  return {[](const Options& options) -> Value {
            const std::size_t size = options.zero.hpz_size;
            return size == 0 ? "off" : size == node ? "node" : std::to_string(size);
          },
          [](Options& options, const Value& value) {
            const auto& word = std::get<std::string>(value);
            options.zero.hpz_size = word == "off" ? 0 : word == "node" ? node : std::stoull(word);
          }};
}

/// off, or a number of bits.
Binding bits(int ZeroOptions::*member) {
  return {[=](const Options& options) -> Value {
            const int count = options.zero.*member;
            return count == 0 ? "off" : std::to_string(count);
          },
          [=](Options& options, const Value& value) {
            const auto& word = std::get<std::string>(value);
            options.zero.*member = word == "off" ? 0 : std::stoi(word);
          }};
}

std::vector<Row> zero_rows() {
  using Count = std::uint64_t;
  const UsedBy stage_3 = {"zero.stage", {"3"}}, reduced = {"zero.qgz", {"8", "4"}};
  return {
      {"zero.stage", in(&Options::zero, &ZeroOptions::stage), "", one_of({"0", "1", "2", "3"}),
       "states sharded: 0 none, 1 +optimizer, 2 +gradients, 3 +parameters"},
      {"zero.prefetch_units", in(&Options::zero, &ZeroOptions::prefetch_units), "units", between(0, 65536),
       "units gathered ahead of the one that runs (stage 3)", stage_3},
      {"zero.max_live_mb", in(&Options::zero, &ZeroOptions::max_live_mb), megabytes, above(0).or_word("auto"),
       "largest gathered parameters at any time (stage 3); auto: what prefetch_units takes", stage_3},
      {"zero.persist_below", in(&Options::zero, &ZeroOptions::persist_below), "elements", at_least(0),
       "units smaller than this stay whole on every rank (stage 3)", stage_3},
      {"zero.reshard_after_forward", in(&Options::zero, &ZeroOptions::reshard_after_forward), "", any(),
       "release parameters after forward and gather them again for backward (stage 3)", stage_3},
      {"zero.hpz_size", hpz_size(), "ranks", one_of({"off", "node"}).or_count(),
       "neighbouring ranks that keep a second partition of the parameters, from which all gathers but the first after an "
       "update are made (stage 3; ZeRO++ hpZ); 1: every rank keeps all; as many as there are ranks, or more: off",
       stage_3},
      {"zero.qwz", bits(&ZeroOptions::qwz), "bits", one_of({"off", "8", "4"}),
       "parameters are gathered in so many bits (stage 3; ZeRO++ qwZ)", stage_3},
      {"zero.qgz",
       bits(&ZeroOptions::qgz),
       "bits",
       one_of({"off", "8", "4"}),
       "gradients are reduced in so many bits across nodes (ZeRO++ qgZ)",
       {"zero.stage", {"2", "3"}}},
      {"zero.qgz_node", bits(&ZeroOptions::qgz_node), "bits", one_of({"8", "4"}), "and in so many within nodes", reduced},
      {"zero.quant_block", in(&Options::zero, &ZeroOptions::quant_block), "elements", between(1, 16384),
       "elements that share one scale when quantized"},
      {"zero.quant_rounding", in(&Options::zero, &ZeroOptions::quant_rounding), "", one_of(names<kernels::QuantRounding>()),
       "codes of half the error, or the codes that DeepSpeed has"},
      {"zero.quant_feedback", in(&Options::zero, &ZeroOptions::quant_feedback), "", any(),
       "what quantization took from a gradient across nodes is added to the next one", reduced},
      later("zero.tile_linear", Count{1}, "tiles", between(1, 65536),
            "tiles that large linear layers are gathered in, one after another"),
  };
}

std::vector<Row> comm_rows() {
  return {
      {"comm.backend", in(&Options::comm, &CommOptions::backend), "",
       one_of(names<comm::Backend>()).later({name_of(comm::Backend::nccl)}), "what carries messages among ranks"},
      {"comm.collectives", in(&Options::comm, &CommOptions::collectives), "", one_of(names<comm::Collectives>()),
       "order of sums: the fixed tree, the same bits on any number of ranks; or as the backend's library likes"},
      {"comm.bucket_mb", in(&Options::comm, &CommOptions::bucket_mb), megabytes, above(0),
       "largest message; changes no bit of the result"},
      {"comm.overlap", in(&Options::comm, &CommOptions::overlap), "", any(), "reduce while backward goes on"},
      {"comm.reduce_dtype", in(&Options::comm, &CommOptions::reduce_dtype), "", one_of(names<DType>()),
       "gradients are held, summed and sent in this precision"},
      {"comm.ranks_per_node", in(&Options::comm, &CommOptions::ranks_per_node), "ranks",
       between(1, most_ranks).or_word("auto"), "plays a cluster of such nodes; auto: as the machine is"},
      {"comm.wait", in(&Options::comm, &CommOptions::wait), "", one_of(names<comm::Wait>()),
       "what a rank does while it waits; the environment's SHOAL_COMM_WAIT goes first"},
      {"comm.timeout", in(&Options::comm, &CommOptions::timeout), "seconds", above(0),
       "time without progress after which the stalled rank is named and the run ends"},
  };
}

std::vector<Row> sync_rows() {
  using sync::SyncKind;
  const auto that = [](auto uses) { return users("sync.kind", sync::sync_kinds, uses); };
  const UsedBy apart = that([](const auto& kind) { return kind.value != SyncKind::every_step; });
  const UsedBy averaging = that([](const auto& kind) { return kind.does.average; });
  const UsedBy pushing = that([](const auto& kind) { return kind.does.push; });
  const UsedBy outer = that([](const auto& kind) { return kind.does.outer; });
  const UsedBy meeting = that([](const auto& kind) { return kind.does.average || kind.does.outer; });
  const UsedBy slowmo = {"sync.kind", {name_of(SyncKind::slowmo)}}, late = {"sync.average_overlap", {"true"}};
  return {
      {"sync.kind", in(&Options::sync, &SyncOptions::kind), "", one_of(names<SyncKind>()),
       "when nodes agree: every step, or every few (localsgd, slowmo, diloco), or by neighbours' push (sgp)"},
      {"sync.localsgd_frequency", in(&Options::sync, &SyncOptions::localsgd_frequency), "steps", between(1, most_steps),
       "steps between averages of the nodes' parameters (localsgd, and slowmo over it)", averaging},
      {"sync.slowmo_frequency", in(&Options::sync, &SyncOptions::slowmo_frequency), "steps", between(1, most_steps),
       "steps between outer updates (slowmo, diloco)", outer},
      {"sync.slowmo_momentum", in(&Options::sync, &SyncOptions::slowmo_momentum), "", from_below(0, 1),
       "momentum of the outer update: slow momentum, or Nesterov's (diloco)", outer},
      {"sync.slowmo_lr", in(&Options::sync, &SyncOptions::slowmo_lr), "", above(0), "rate of the outer update", outer},
      {"sync.slowmo_base", in(&Options::sync, &SyncOptions::slowmo_base), "",
       one_of({name_of(SyncKind::localsgd), name_of(SyncKind::sgp)}), "what the nodes do between outer updates", slowmo},
      {"sync.slowmo_memory_efficient", in(&Options::sync, &SyncOptions::slowmo_memory_efficient), "", any(),
       "share the outer update's state out over all ranks", slowmo},
      {"sync.average_dtype", in(&Options::sync, &SyncOptions::average_dtype), "", one_of(names<sync::AverageType>()),
       "means are sent in it; bf16, int8: differences from what nodes had in common when they met last; int8: a scale for "
       "zero.quant_block of them, and what is lost is added the next time",
       meeting},
      {"sync.average_overlap", in(&Options::sync, &SyncOptions::average_overlap), "", any(),
       "means are sent while the next steps run, and taken in with what these steps have done left on top", meeting},
      {"sync.average_delay", in(&Options::sync, &SyncOptions::average_delay), "steps", between(1, most_steps),
       "steps after which such a mean is taken in", late},
      {"sync.sgp_overlap", in(&Options::sync, &SyncOptions::sgp_overlap), "", any(),
       "exchange with neighbours during the next step: what they send arrives one step late", pushing},
      {"sync.warmup_steps", in(&Options::sync, &SyncOptions::warmup_steps), "steps", between(0, most_steps),
       "nodes share gradients, too, in the first so many steps; all else begins after them", apart},
      {"sync.nprocs_per_node", in(&Options::sync, &SyncOptions::nprocs_per_node), "ranks",
       between(1, most_ranks).or_word("auto"), "neighbouring ranks that stay in step; auto: those of a node", apart},
  };
}

std::vector<Row> activation_rows() {
  return {
      {"activation.checkpoint_interval", in(&Options::activation, &ActivationOptions::checkpoint_interval), "blocks",
       between(0, 65536).or_word("auto", ActivationOptions::automatic),
       "blocks between kept activations; the rest is computed again in backward; 0: keep all; auto: the root "
       "of the number of blocks; 1 takes the least memory, unless a model is very deep"},
      later("activation.partition", false, "", any(), "share kept activations out among the ranks"),
      later("activation.offload", false, "", any(), "keep activations in host memory"),
  };
}

std::vector<Row> offload_rows() {
  const auto used_by = [](Row row, const UsedBy& by) {
    row.used_by = by;
    return row;
  };
  return {
      later("offload.optimizer", "none", "", one_of({"none", "cpu", "nvme"}), "where optimizer states live"),
      used_by(later("offload.params", "none", "", one_of({"none", "cpu", "nvme"}), "where parameters live (stage 3)"),
              {"zero.stage", {"3"}}),
      used_by(later("offload.optimizer_ratio", 1.0, "", between(0, 1), "share of the optimizer states that is offloaded"),
              {"offload.optimizer", {"cpu", "nvme"}}),
      later("nvme.dir", "", "", any().as("a directory on a local disk"), "where offloaded states are written"),
      later("nvme.block_mb", 1.0, megabytes, above(0), "size of one request"),
      later("nvme.queue_depth", std::uint64_t{8}, "requests", between(1, 4096), "requests in flight"),
      {"memory.limit", in(&Options::memory_limit_gib), "GiB per rank", above(0).or_word("auto"),
       "more than this is refused at the start; auto: the node's memory divided by its ranks"},
  };
}

std::vector<Row> file_rows() {
  const UsedBy traced =
      users("trace.level", trace::level_names, [](const auto& level) { return level.value != trace::Level::off; });
  return {
      {"checkpoint.dir", in(&Options::checkpoint, &CheckpointOptions::dir), "", any().as("a directory"),
       "where checkpoints are; empty: checkpoints in output.dir"},
      {"checkpoint.every", in(&Options::checkpoint, &CheckpointOptions::every), "steps", between(0, most_steps),
       "steps between checkpoints; 0: off"},
      {"checkpoint.keep", in(&Options::checkpoint, &CheckpointOptions::keep), "files", between(0, most_steps),
       "whole checkpoints of this run's lineage to keep, the newest; 0: all"},
      {"checkpoint.resume", in(&Options::checkpoint, &CheckpointOptions::resume), "",
       not_empty().as("none, latest, or the path of a checkpoint"),
       "state to go on from; latest: the newest whole one of the run in output.dir, if there is any"},
      {"checkpoint.async", in(&Options::checkpoint, &CheckpointOptions::async), "", any(),
       "write from a copy while the training goes on"},
      {"checkpoint.io", in(&Options::checkpoint, &CheckpointOptions::io), "", one_of(names<io::IoMode>()),
       "how ranks write; auto: independently where ranks outnumber cores"},
      {"trace.file", in(&Options::trace, &TraceOptions::file), "", any().as("a path"),
       "empty: trace.h5 in output.dir; a run that is resumed after step N adds _from_N to the name", traced},
      {"trace.level", in(&Options::trace, &TraceOptions::level), "", one_of(names<trace::Level>()),
       "what is recorded, each level with those before it"},
      {"trace.interval", in(&Options::trace, &TraceOptions::interval), "steps", between(1, most_steps),
       "steps between collective writes of the trace", traced},
      {"output.dir", in(&Options::output, &OutputOptions::dir), "", not_empty().as("a directory"),
       "where everything is written; made if absent"},
      {"output.export", in(&Options::output, &OutputOptions::export_dir), "", any().as("a directory"),
       "Hugging Face's weights after the last step; empty: none; an earlier export is replaced by a run that is resumed"},
      {"output.overwrite", in(&Options::output, &OutputOptions::overwrite), "", any(),
       "replace what this program wrote: the run that output.dir holds, trace.file, output.export, a command's result; "
       "never "
       "another file"},
  };
}

std::vector<Row> fault_rows() {
  return {
      later("fault.kind", "none", "", one_of({"none", "kill", "hang", "slow", "nan"}),
            "a fault to inject, for tests of what follows"),
      later("fault.rank", std::uint64_t{0}, "", between(0, most_ranks), "rank that meets it"),
      later("fault.step", std::uint64_t{1}, "", between(1, most_steps), "step at which it meets it"),
  };
}

}  // namespace

Row later(const std::string& name, const Value& value, const std::string& unit, const Allowed& allowed,
          const std::string& help) {
  const auto get = [=](const Options& options) {
    const auto found = options.not_built.find(name);
    return found == options.not_built.end() ? value : found->second;
  };
  const auto set = [=](Options& options, const Value& given) {
    if (given == value) {
      options.not_built.erase(name);
    } else {
      options.not_built[name] = given;
    }
  };
  return {name, {get, set}, unit, allowed, help, {}, false};
}

std::vector<Row> run_rows() {
  std::vector<Row> rows = zero_rows();
  for (const auto& more : {comm_rows(), sync_rows(), activation_rows(), offload_rows(), file_rows(), fault_rows()}) {
    rows.insert(rows.end(), more.begin(), more.end());
  }
  return rows;
}

}  // namespace shoal::config
