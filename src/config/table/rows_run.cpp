// SPDX-License-Identifier: Apache-2.0
// Options that change where and how a training is computed, and what it writes: zero, comm, sync, pipeline, activation,
// offload, nvme, memory, checkpoint, trace, output, fault.
#include "config/table/limits.hpp"
#include "config/table/rows.hpp"

namespace shoal::config {

using comm::CommOptions;
using model::ActivationOptions;
using pipeline::PipelineOptions;
using sync::SyncOptions;
using zero::OffloadOptions;
using zero::ZeroOptions;

namespace {

constexpr const char* megabytes = "10^6 bytes";

/// Binds zero.hpz_size: off, node, or a number.
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

/// Binds an option of ZeRO++: off, or a number of bits.
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
  const UsedBy stage_3 = {"zero.stage", {"3"}}, gathered = {"zero.qwz", {"8", "4"}}, reduced = {"zero.qgz", {"8", "4"}};
  const UsedBy averaged = {"sync.average_dtype", {name_of(sync::AverageType::int8)}};
  return {
      {"zero.stage", in(&Options::zero, &ZeroOptions::stage), "", one_of({"0", "1", "2", "3"}),
       about("model states that are split among the ranks instead of copied to each: 0 none, 1 optimizer states, 2 also "
             "gradients, 3 also parameters; results do not change",
             "Raise it until the model fits; stage 1 sends no more than stage 0.")},
      {"zero.prefetch_units", in(&Options::zero, &ZeroOptions::prefetch_units), "units", between(0, 65536),
       about("stage 3: units (embedding, block, head) that are fetched ahead of the running one",
             "Raise it if the report shows waiting for all_gather; 0 saves memory."),
       stage_3},
      {"zero.max_live_mb", in(&Options::zero, &ZeroOptions::max_live_mb), megabytes, above(0).or_word("auto"),
       about("stage 3: most memory for gathered parameters; less is fetched ahead if needed; auto: as prefetch_units needs",
             "Set it when memory is short."),
       stage_3},
      {"zero.persist_below", in(&Options::zero, &ZeroOptions::persist_below), "parameters", at_least(0),
       about("stage 3: units with fewer parameters stay whole on every rank", "Raise it to avoid many small messages."),
       stage_3},
      {"zero.reshard_after_forward", in(&Options::zero, &ZeroOptions::reshard_after_forward), "", any(),
       about("stage 3: release parameters after the forward pass and gather them again for the backward pass",
             "Set it to false to send a third less, in a pipeline to gather once a step; this needs as much memory as stage "
             "2."),
       stage_3},
      {"zero.hpz_size", hpz_size(), "ranks", one_of({"off", "node"}).or_count(),
       about("stage 3, ZeRO++ hpZ: a second copy of the parameters, split among this many consecutive ranks, serves all "
             "gathers but the first after an update; 1: every rank keeps a whole copy; the number of ranks or more: off",
             "Set it to node if links between nodes are slow; results do not change."),
       stage_3},
      {"zero.qwz", bits(&ZeroOptions::qwz), "bits", one_of({"off", "8", "4"}),
       about("stage 3, ZeRO++ qwZ: send parameters in 8 or 4 bits",
             "Use it on slow links; losses change slightly, but are the same in every run."),
       stage_3},
      {"zero.qgz",
       bits(&ZeroOptions::qgz),
       "bits",
       one_of({"off", "8", "4"}),
       about("stages 2 and 3, ZeRO++ qgZ: send gradients between nodes in 8 or 4 bits",
             "Use it on slow links; losses change, but are the same in every run."),
       {"zero.stage", {"2", "3"}}},
      {"zero.qgz_node", bits(&ZeroOptions::qgz_node), "bits", one_of({"8", "4"}),
       about("with qgz: bits of the gradients that are sent within a node"), reduced},
      {"zero.quant_block",
       in(&Options::zero, &ZeroOptions::quant_block),
       "values",
       between(1, 16384),
       about("with qwz, qgz or sync.average_dtype = int8: values that share one scale of 4 bytes",
             "Smaller blocks are more exact and send more bytes."),
       {},
       {gathered, reduced, averaged}},
      {"zero.quant_rounding",
       in(&Options::zero, &ZeroOptions::quant_rounding),
       "",
       one_of(names<kernels::QuantRounding>()),
       about("with qwz or qgz. accurate: shoal's quantization, with about half the error; deepspeed: DeepSpeed's",
             "Set it to deepspeed to compare with DeepSpeed."),
       {},
       {gathered, reduced}},
      {"zero.quant_feedback", in(&Options::zero, &ZeroOptions::quant_feedback), "", any(),
       about("with qgz: add the rounding error of gradients sent between nodes to the gradients of the next step",
             "Use it if 4 bits cost too much loss; it needs memory."),
       reduced},
      later("zero.tile_linear", Count{1}, "tiles", between(1, 65536),
            about("tiles in which large linear layers are gathered, one after another")),
  };
}

std::vector<Row> comm_rows() {
  return {
      {"comm.backend", in(&Options::comm, &CommOptions::backend), "", one_of(names<comm::Backend>()),
       about(
           "library that carries messages between ranks: nccl for a GPU's memory, and MPI for all else; auto: nccl on GPUs",
           "Leave it alone, but to compare speed.")},
      {"comm.collectives", in(&Options::comm, &CommOptions::collectives), "", one_of(names<comm::Collectives>()),
       about("reproducible: shoal's fixed order of sums, with the same bits on 1, 2, 4, ... ranks; native: the MPI "
             "library's own order",
             "Set it to native only to compare speed.")},
      {"comm.bucket_mb", in(&Options::comm, &CommOptions::bucket_mb), megabytes, above(0),
       about(
           "largest message of gradients or parameters; results do not change, except with qgZ if zero.quant_block does not "
           "divide 256",
           "Smaller messages start earlier; larger ones are sent faster.")},
      {"comm.overlap", in(&Options::comm, &CommOptions::overlap), "", any(),
       about("send gradients and parameters while computation continues; results do not change",
             "Set it to false only to measure what the overlap saves.")},
      {"comm.gather_group", in(&Options::comm, &CommOptions::gather_group), "", any(),
       about("nccl: gather parameters with communicators of their own, since NCCL carries out the calls of one communicator "
             "one after another, and gathers then need not wait for sums; results do not change",
             "Its buffers take memory of the GPU once more. It brings nothing with an NCCL older than 2.26.2."),
       users("comm.backend", comm::backend_names, [](const auto& row) { return row.value != comm::Backend::mpi; })},
      {"comm.reduce_dtype", in(&Options::comm, &CommOptions::reduce_dtype), "", one_of(names<DType>()),
       about("precision in which gradients are stored, summed and sent",
             "Set it to bf16 to halve their memory and messages; losses change.")},
      {"comm.ranks_per_node", in(&Options::comm, &CommOptions::ranks_per_node), "ranks",
       between(1, most_ranks).or_word("auto"),
       about("pretend that nodes have this many ranks; auto: the real nodes",
             "Set it to try options for several nodes on one machine; leave it alone on a cluster.")},
      {"comm.wait", in(&Options::comm, &CommOptions::wait), "", one_of(names<comm::Wait>()),
       about("while waiting for messages: yield the core, or sleep for 20 us at a time; auto: sleep if ranks share cores",
             "Set it to sleep if other jobs use the cores. The environment variable SHOAL_COMM_WAIT overrides it.")},
      {"comm.timeout", in(&Options::comm, &CommOptions::timeout), "seconds", above(0),
       about("time without progress after which the stalled rank is named and the run ends")},
  };
}

std::vector<Row> sync_rows() {
  using sync::SyncKind;
  const auto that = [](auto uses) { return users("sync.kind", sync::sync_kinds, uses); };
  const UsedBy local = that([](const auto& kind) { return kind.value != SyncKind::every_step; });
  const UsedBy averaging = that([](const auto& kind) { return kind.does.average; });
  const UsedBy pushing = that([](const auto& kind) { return kind.does.push; });
  const UsedBy outer = that([](const auto& kind) { return kind.does.outer; });
  const UsedBy synchronizing = that([](const auto& kind) { return kind.does.average || kind.does.outer; });
  const UsedBy slowmo = {"sync.kind", {name_of(SyncKind::slowmo)}}, late = {"sync.average_overlap", {"true"}};
  return {
      {"sync.kind", in(&Options::sync, &SyncOptions::kind), "", one_of(names<SyncKind>()),
       about("when nodes synchronize. every_step: gradients at every step, exact; localsgd: average parameters every few "
             "steps; sgp: exchange parameters with one neighbour node at every step; slowmo: one of these two, and rarely "
             "an update of the average with momentum; diloco: only such updates",
             "Change it only if links between nodes are slow.")},
      {"sync.localsgd_frequency", in(&Options::sync, &SyncOptions::localsgd_frequency), "steps", between(1, most_steps),
       about("localsgd, slowmo: steps between averages of the nodes' parameters",
             "Larger values send less and cost more loss."),
       averaging},
      {"sync.slowmo_frequency", in(&Options::sync, &SyncOptions::slowmo_frequency), "steps", between(1, most_steps),
       about("slowmo, diloco: steps between outer updates", "Larger values send less and cost more loss."), outer},
      {"sync.slowmo_momentum", in(&Options::sync, &SyncOptions::slowmo_momentum), "", from_below(0, 1),
       about("slowmo, diloco: momentum of the outer update",
             "FairScale's advice: 0 below 4 nodes, 0.2 at 4, 0.5 at 8, 0.6 at 16."),
       outer},
      {"sync.slowmo_lr", in(&Options::sync, &SyncOptions::slowmo_lr), "", above(0),
       about("slowmo, diloco: learning rate of the outer update"), outer},
      {"sync.slowmo_base", in(&Options::sync, &SyncOptions::slowmo_base), "",
       one_of({name_of(SyncKind::localsgd), name_of(SyncKind::sgp)}), about("slowmo: what nodes do between outer updates"),
       slowmo},
      {"sync.slowmo_memory_efficient", in(&Options::sync, &SyncOptions::slowmo_memory_efficient), "", any(),
       about("slowmo: split the state of the outer update among all ranks; false: each node keeps its own",
             "Set it to false to compare with FairScale without it."),
       slowmo},
      {"sync.average_dtype", in(&Options::sync, &SyncOptions::average_dtype), "", one_of(names<sync::AverageType>()),
       about("send averages as fp32 values, or as bf16 or int8 changes since the last average; with int8 the rounding error "
             "is added to the next one",
             "bf16 and int8 send half and a quarter of the bytes."),
       synchronizing},
      {"sync.average_overlap", in(&Options::sync, &SyncOptions::average_overlap), "", any(),
       about("send averages in the background while the next steps run",
             "Use it on very slow links; losses change, but are the same in every run."),
       synchronizing},
      {"sync.average_delay", in(&Options::sync, &SyncOptions::average_delay), "steps", between(1, most_steps),
       about("with average_overlap: steps after which an average is applied"), late},
      {"sync.sgp_overlap", in(&Options::sync, &SyncOptions::sgp_overlap), "", any(),
       about("sgp, slowmo over sgp: exchange during the next step, so that the neighbour's parameters arrive one step late",
             "Use it if the report shows waiting at every step."),
       pushing},
      {"sync.warmup_steps", in(&Options::sync, &SyncOptions::warmup_steps), "steps", between(0, most_steps),
       about("first steps, in which nodes synchronize gradients at every step; sync.kind begins after them",
             "Raise it if the loss falls steeply at first."),
       local},
      {"sync.nprocs_per_node", in(&Options::sync, &SyncOptions::nprocs_per_node), "ranks",
       between(1, most_ranks).or_word("auto"),
       about("consecutive ranks that synchronize with each other at every step; auto: the ranks of a node",
             "Set it to make these groups smaller or larger than a node."),
       local},
  };
}

std::vector<Row> pipeline_rows() {
  std::vector<std::string> of_stages;
  for (const auto& row : pipeline::schedules) {
    if (row.several_stages) of_stages.emplace_back(row.name);
  }
  return {
      {"pipeline.size", in(&Options::pipeline, &PipelineOptions::size), "ranks", between(1, most_ranks),
       about("ranks among which the layers are divided; results do not change",
             "Raise it if links between nodes are slow, or a rank has no memory for the model; a tied embedding needs "
             "model.tied_gradient = apart.")},
      {"pipeline.schedule", in(&Options::pipeline, &PipelineOptions::schedule), "", one_of(of_stages),
       about(
           "order of forward and backward passes. gpipe: all forward, then all backward; 1f1b: in alternation; interleaved: "
           "in alternation, over several parts",
           "interleaved idles less and sends more; gpipe needs the most memory.")},
      {"pipeline.parts", in(&Options::pipeline, &PipelineOptions::parts), "", between(1, 65536),
       about("gpipe, interleaved: parts of the model that each rank has")},
      {"pipeline.balance", in(&Options::pipeline, &PipelineOptions::balance), "",
       not_empty().as("auto, or numbers as 3,2,1"),
       about("number of layers of each part; auto: all parts take about the same time, as far as memory allows")},
      {"pipeline.checkpoint", in(&Options::pipeline, &PipelineOptions::checkpoint), "",
       one_of(names<pipeline::Checkpoint>()),
       about("micro-batches of a step whose activations are recomputed in the backward pass; except_last: all but the last",
             "Set it to always if activations need too much memory.")},
  };
}

std::vector<Row> activation_rows() {
  return {
      {"activation.checkpoint_interval", in(&Options::activation, &ActivationOptions::checkpoint_interval), "blocks",
       between(0, 65536).or_word("auto", ActivationOptions::automatic),
       about("keep the input of every K-th block and recompute the rest in the backward pass; 0: keep everything; auto: the "
             "root of n_layer",
             "Set it if activations need too much memory; 1 needs least up to about 21 layers.")},
      later("activation.partition", false, "", any(), about("split kept activations among the ranks")),
      later("activation.offload", false, "", any(), about("keep activations in host memory")),
  };
}

std::vector<Row> offload_rows() {
  const std::vector<UsedBy> on_disk = {{"offload.optimizer", {"nvme"}}, {"offload.params", {"nvme"}}};
  return {
      {"offload.optimizer", in(&Options::offload, &OffloadOptions::optimizer), "", one_of(names<Where>()),
       about(
           "stages 1 to 3: where moments, masters of 16-bit parameters, and in stages 2 and 3 gradients wait while they are "
           "not used (these in memory of the host at most). No value changes a bit of a result. On processors cpu saves no "
           "memory, as the host is the device",
           "Set it to nvme if optimizer states do not fit into memory."),
       UsedBy{"zero.stage", {"1", "2", "3"}}},
      {"offload.params", in(&Options::offload, &OffloadOptions::params), "", one_of(names<Where>()),
       about(
           "stage 3: where parameters wait; they come up for each use, also on one rank. On processors cpu saves no memory",
           "Set it to nvme, too, if parameters do not fit into memory."),
       UsedBy{"zero.stage", {"3"}}},
      {"offload.optimizer_ratio", in(&Options::offload, &OffloadOptions::optimizer_ratio), "", between(0, 1),
       about("part of the optimizer's states that is offloaded: those of the last units of the model, whole ones"),
       UsedBy{"offload.optimizer", {"cpu", "nvme"}}},
      {"nvme.dir",
       in(&Options::nvme, &io::NvmeOptions::dir),
       "",
       any().as("a directory on a local disk"),
       about("where offloaded states are written: to a file for each rank, which has no name"),
       {},
       on_disk},
      {"nvme.block_mb",
       in(&Options::nvme, &io::NvmeOptions::block_mb),
       megabytes,
       above(0),
       about("most bytes of one read or write; rounded up to whole sectors of 4096 bytes"),
       {},
       on_disk},
      {"nvme.queue_depth",
       in(&Options::nvme, &io::NvmeOptions::queue_depth),
       "requests",
       between(1, 4096),
       about("reads and writes in flight on each rank"),
       {},
       on_disk},
      {"memory.limit", in(&Options::memory_limit_gib), "GiB per rank", above(0).or_word("auto"),
       about("refuse to start a run that needs more; auto: the node's memory, or the limit of a control group if that is "
             "less, "
             "divided by the ranks of the node; on GPUs auto means that staging must fit there, and all else into what is "
             "free on the GPU")},
  };
}

std::vector<Row> file_rows() {
  const UsedBy traced =
      users("trace.level", trace::level_names, [](const auto& level) { return level.value != trace::Level::off; });
  return {
      {"checkpoint.dir", in(&Options::checkpoint, &CheckpointOptions::dir), "", any().as("a directory"),
       about("where checkpoints are written; empty: checkpoints in output.dir")},
      {"checkpoint.every", in(&Options::checkpoint, &CheckpointOptions::every), "steps", between(0, most_steps),
       about("steps between checkpoints; 0: off")},
      {"checkpoint.last", in(&Options::checkpoint, &CheckpointOptions::last), "", any(),
       about("write a checkpoint after the last step, so that the weights are kept",
             "Set it to false for runs that only measure.")},
      {"checkpoint.keep", in(&Options::checkpoint, &CheckpointOptions::keep), "files", between(0, most_checkpoints),
       about("newest complete checkpoints to keep, of this run and the runs that it continues; 0: all")},
      {"checkpoint.keep_best", in(&Options::checkpoint, &CheckpointOptions::keep_best), "", any(),
       about("write a checkpoint at each evaluation (train.eval_every) whose loss is the lowest so far, and keep that one "
             "besides the newest")},
      {"checkpoint.resume", in(&Options::checkpoint, &CheckpointOptions::resume), "",
       not_empty().as("none, latest, or the path of a checkpoint or of a run's directory"),
       about("checkpoint to continue from; a directory: the newest complete one of the run there; latest: the same of "
             "output.dir, or a new run if there is none")},
      {"checkpoint.async", in(&Options::checkpoint, &CheckpointOptions::async), "", any(),
       about("write checkpoints from a copy in memory while training continues",
             "Use it if saving takes long; it needs memory for the copy.")},
      {"checkpoint.io", in(&Options::checkpoint, &CheckpointOptions::io), "", one_of(names<io::IoMode>()),
       about("each rank writes by itself (independent), or through MPI-IO's buffers (collective); auto: collective on "
             "Lustre, GPFS and BeeGFS unless ranks outnumber cores",
             "Try both if saving is slow.")},
      {"trace.file", in(&Options::trace, &TraceOptions::file), "", any().as("a path"),
       about("where the trace is written; empty: trace.h5 in output.dir. A run that is resumed after step N adds _from_N to "
             "the name"),
       traced},
      {"trace.level", in(&Options::trace, &TraceOptions::level), "", one_of(names<trace::Level>()),
       about("what the trace records. steps: steps and their parts; comm: also messages; kernels: also kernels",
             "Set it to kernels to see where the arithmetic of a step takes its time.")},
      {"trace.interval", in(&Options::trace, &TraceOptions::interval), "steps", between(1, most_steps),
       about("steps between writes to the trace file; fewer if a rank has no room for the events of so many"), traced},
      {"output.dir", in(&Options::output, &OutputOptions::dir), "", not_empty().as("a directory"),
       about("directory for all files of the run; created if absent")},
      {"output.export", in(&Options::output, &OutputOptions::export_dir), "", any().as("a directory"),
       about("directory for the weights after the last step, in Hugging Face's format; empty: none. A resumed run replaces "
             "an earlier export")},
      {"output.overwrite", in(&Options::output, &OutputOptions::overwrite), "", any(),
       about("replace files that shoal wrote: the run in output.dir, trace.file, output.export, the result of a command; no "
             "other file is ever replaced")},
  };
}

std::vector<Row> fault_rows() {
  return {
      {"fault.kind", in(&Options::fault, &FaultOptions::kind), "", not_empty().as("none, or a list of faults"),
       about(
           "cause faults on purpose. kill: the rank kills itself; hang: it stops in the middle of a step; slow: it takes "
           "three times comm.timeout for a step, but is alive; io_error: its next write to a checkpoint or the trace "
           "fails; corrupt: a byte of the next checkpoint is changed after it is complete; tier_flip, tier_error: a byte of "
           "its states on the disk is changed, or a read or write of them fails (offload.optimizer = nvme). A list as "
           "hang@3:1,kill@5:0 "
           "names step and rank of each. A run that resumes from a checkpoint causes none",
           "Set it to try whether your job scripts survive a failure.")},
      {"fault.step", in(&Options::fault, &FaultOptions::step), "", between(1, most_steps),
       about("step of the faults for which the list names none")},
      {"fault.rank", in(&Options::fault, &FaultOptions::rank), "", between(0, most_ranks),
       about("rank of the faults for which the list names none; rank 0 alone can corrupt a checkpoint")},
  };
}

}  // namespace

Row later(const std::string& name, const Value& value, const std::string& unit, const Allowed& allowed, const Help& help) {
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
  return {name, {get, set}, unit, allowed, help, {}, {}, false};
}

std::vector<Row> run_rows() {
  std::vector<Row> rows = zero_rows();
  for (const auto& more :
       {comm_rows(), sync_rows(), pipeline_rows(), activation_rows(), offload_rows(), file_rows(), fault_rows()}) {
    rows.insert(rows.end(), more.begin(), more.end());
  }
  return rows;
}

}  // namespace shoal::config
