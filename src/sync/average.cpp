// SPDX-License-Identifier: Apache-2.0
#include "shoal/sync/average.hpp"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "shoal/base/error.hpp"
#include "shoal/kernels/bytes.hpp"
#include "shoal/kernels/difference.hpp"
#include "shoal/kernels/outer.hpp"

namespace shoal::sync {

Sending sending_of(const SyncOptions& options, std::size_t quant_block) {
  Sending sending;
  sending.overlap = options.average_overlap;
  if (options.average_dtype == AverageType::bf16) sending.type = DType::bf16;
  if (options.average_dtype == AverageType::int8) sending.quantized = kernels::QuantFormat{8, quant_block};
  return sending;
}

namespace {

std::unique_ptr<comm::Reducer> exact_reducer(const zero::RankGroups& groups) {
  return comm::make_reducer(comm::Collectives::reproducible, groups.ranks, groups.group);
}

std::unique_ptr<comm::Reducer> reducer_of(const Sending& sending, const NodeGroups& groups) {
  if (!sending.quantized) return exact_reducer(groups.across);
  // For this collective each rank of the group is a node by itself.
  return comm::make_quantized_reducer({groups.across.ranks, 1, groups.across.group, groups.self, groups.across.group},
                                      {*sending.quantized, *sending.quantized});
}

}  // namespace

/// A mean in flight. Quantized means are sent unit by unit, because the quantized values need scratch memory in addition to
/// the buffers; others are sent as one message.
class Average::MeanOperation final : public comm::Operation {
 public:
  MeanOperation(Average& average, Update update) : average_(average), update_(std::move(update)) { part_ = part_from(0); }

  std::string_view name() const override { return "average"; }
  std::string describe() const override {
    return text("the mean of the parameters over ", average_.groups_.across.ranks, " nodes, ", part_.begin, " of ",
                average_.sub_shards_->units(), " units done");
  }

  /// Computes the mean of one unit per call, so that no call takes long.
  bool advance() override {
    if (!message_.test()) return false;
    switch (next_) {
      case Next::reduce:
        if (part_.empty()) return true;
        message_ = average_.reduce(part_);
        unit_ = part_.begin;
        next_ = Next::mean;
        return false;
      case Next::mean:
        average_.make_mean(unit_, update_);
        if (++unit_ == part_.end) next_ = Next::gather;
        return false;
      case Next::gather:
        message_ = average_.gather(part_);
        part_ = part_from(part_.end);
        next_ = Next::reduce;
        return false;
    }
    return false;
  }

 protected:
  bool whole_at_start() const override { return average_.groups_.across.group->queued(); }

 private:
  enum class Next { reduce, mean, gather };

  Range part_from(std::size_t unit) const {
    const std::size_t units = average_.sub_shards_->units();
    return {unit, average_.sending_.quantized ? std::min(unit + 1, units) : units};
  }

  Average& average_;
  Update update_;
  Range part_;  // units
  std::size_t unit_ = 0;
  Next next_ = Next::reduce;
  comm::Request message_;
};

Average::Average(const SubShards& sub_shards, const NodeGroups& groups, const Sending& sending, Memory& memory)
    : sub_shards_(&sub_shards),
      groups_(groups),
      sending_(sending),
      reducer_(reducer_of(sending, groups)),
      exact_(exact_reducer(groups.across)),
      in_node_(exact_reducer(groups.node)) {
  const bool differences = sending.type != DType::f32 || sending.quantized;
  std::size_t largest_sub_shard = 0;
  for (std::size_t u = 0; !alone() && u < sub_shards.units(); ++u) {
    const std::size_t elements = sub_shards.shards()[u].size();
    largest_sub_shard = std::max(largest_sub_shard, sub_shards.sub_shards()[u].size());
    if (differences) reference_.push_back(memory.take<float>(Kind::master, elements, "parameters in common"));
    if (differences || sending.overlap) {
      const std::size_t bytes = elements * size_of(sending.type);
      message_.push_back(memory.take<std::byte>(Kind::buffers, bytes, "means of parameters",
                                                sending.quantized ? Use::kernels : Use::messages));  // or codes, in scratch_
    }
    if (sending.overlap) sent_.push_back(memory.take<float>(Kind::buffers, elements, "parameters that were sent"));
    if (sending.quantized) residuals_.push_back(memory.take<float>(Kind::buffers, elements, "quantization residuals"));
  }
  if (sending.type != DType::f32) mean_ = memory.take<float>(Kind::buffers, largest_sub_shard, "mean of a unit");
  const bool sends = !alone() || (groups.node.ranks > 1 && sub_shards.whole_bytes() > 0);
  scratch_ =
      memory.take<std::byte>(Kind::buffers, scratch_bytes(), "messages between nodes", sends ? Use::messages : Use::kernels);
}

std::size_t Average::scratch_bytes() const {
  std::size_t bytes = std::max(exact_->reduce_scratch_bytes({sub_shards_->shard_elements()}, DType::f32),
                               in_node_->gather_scratch_bytes({sub_shards_->whole_bytes() / sizeof(float)}, DType::f32));
  for (std::size_t u = 0; u < sub_shards_->units(); ++u) {
    const comm::MessageBounds bounds{sub_shards_->shards()[u].size(), sub_shards_->largest_sub_shard(u)};
    bytes = std::max({bytes, reducer_->reduce_scratch_bytes(bounds, sending_.type),
                      reducer_->gather_scratch_bytes(bounds, sending_.type)});
  }
  return bytes;
}

void Average::set_reference() {
  if (!in_differences()) return;
  for (std::size_t u = 0; u < sub_shards_->units(); ++u) {
    const Span<float> now = sub_shards_->master(u, sub_shards_->shards()[u]);
    kernels::copy_bytes(now.size_bytes(), now.data(), reference_[u].data());
  }
  run_exactly();
  for (std::size_t u = 0; u < sub_shards_->units(); ++u) {  // restore each node's own parameters
    kernels::swap(reference_[u].size(), reference_[u].data(), sub_shards_->master(u, sub_shards_->shards()[u]).data());
  }
}

void Average::start(Update update) {
  if (alone()) {
    for (std::size_t u = 0; update && u < sub_shards_->units(); ++u) {
      update(u, sub_shards_->sub_shards()[u], sub_shards_->master(u, sub_shards_->sub_shards()[u]));
    }
    return;
  }
  require(!in_flight_, "a mean of parameters is started while another one is in flight");
  for (std::size_t u = 0; u < sub_shards_->units(); ++u) {
    const Range shard = sub_shards_->shards()[u];
    const Span<float> now = sub_shards_->master(u, shard);
    if (in_differences()) {
      kernels::subtract(sending_.type, now.size(), now.data(), reference_[u].data(), message_[u].data());
    } else if (sending_.overlap) {
      kernels::copy_bytes(now.size_bytes(), now.data(), floats(u, shard).data());
    }
    if (sending_.overlap) kernels::copy_bytes(now.size_bytes(), now.data(), sent_[u].data());
  }
  in_flight_ = true;
  arrived_ = false;
  request_ = comm::Request(std::make_shared<MeanOperation>(*this, std::move(update)));
}

comm::Request Average::reduce(Range units) {
  comm::QuantState state;
  if (sending_.quantized) state.residual = residuals_[units.begin];
  return reducer_->reduce_scatter(messages(units), sending_.type, scratch_, state);
}

void Average::make_mean(std::size_t unit, const Update& update) {
  const Range sub_shard = sub_shards_->sub_shards()[unit];
  const auto nodes = static_cast<float>(groups_.across.ranks);
  const Span<std::byte> sum = message(unit, sub_shard);
  const Span<float> mean = sending_.type == DType::f32 ? floats(unit, sub_shard) : mean_.first(sub_shard.size());
  if (in_differences()) {
    kernels::add_to_base(sending_.type, sub_shard.size(), common(unit, sub_shard), sum.data(), nodes, mean.data());
  } else {
    kernels::divide(mean.size(), nodes, mean.data());
  }
  if (update) update(unit, sub_shard, mean);
  if (in_differences()) kernels::subtract(sending_.type, mean.size(), mean.data(), common(unit, sub_shard), sum.data());
}

comm::Request Average::gather(Range units) {
  comm::QuantState state;
  if (sending_.quantized) {
    const Range shard = sub_shards_->shards()[units.begin], sub_shard = sub_shards_->sub_shards()[units.begin];
    state.residual = residuals_[units.begin].subspan(sub_shard.begin - shard.begin, sub_shard.size());
  }
  return reducer_->all_gather(messages(units), sending_.type, scratch_, state);
}

void Average::wait_for_mean() {
  if (!in_flight_ || arrived_) return;
  request_.wait();
  // Also on the owner of the mean, which has it exactly: its reference must be that of all nodes.
  for (std::size_t u = 0; in_differences() && u < sub_shards_->units(); ++u) {
    kernels::add_to_base(sending_.type, reference_[u].size(), reference_[u].data(), message_[u].data(), 1,
                         reference_[u].data());
  }
  arrived_ = true;
}

void Average::apply_mean() {
  if (!in_flight_) return;
  wait_for_mean();
  for (std::size_t u = 0; u < sub_shards_->units(); ++u) {
    const Range shard = sub_shards_->shards()[u];
    const Span<float> now = sub_shards_->master(u, shard);
    const Span<float> mean = in_differences() ? reference_[u] : floats(u, shard);
    if (sending_.overlap) {
      kernels::rebase(now.size(), mean.data(), sent_[u].data(), now.data());
    } else if (in_differences()) {
      kernels::copy_bytes(mean.size_bytes(), mean.data(), now.data());
    }
  }
  in_flight_ = false;
}

void Average::run_exactly() {
  if (alone()) return;
  wait_for_mean();  // the mean in flight uses the same scratch memory
  const auto blocks = [&] {
    return sub_shards_->blocks_across({0, sub_shards_->units()}, [&](std::size_t u, Range range) {
      return comm::bytes_of(sub_shards_->master(u, range));
    });
  };
  exact_->reduce_scatter(blocks(), DType::f32, scratch_, {}).wait();
  for (std::size_t u = 0; u < sub_shards_->units(); ++u) {
    const Span<float> mean = sub_shards_->master(u, sub_shards_->sub_shards()[u]);
    kernels::divide(mean.size(), static_cast<float>(groups_.across.ranks), mean.data());
  }
  exact_->all_gather(blocks(), DType::f32, scratch_, {}).wait();
}

void Average::gather_in_node() {
  if (groups_.node.ranks == 1 || sub_shards_->whole_bytes() == 0) return;
  in_node_->all_gather(sub_shards_->blocks_in_node(), DType::f32, scratch_, {}).wait();
}

std::vector<NamedSlice> Average::common_slices(const std::vector<model::UnitLayout>& units,
                                               const std::vector<Range>& wanted) const {
  if (!in_differences()) return {};
  return zero::named_slices(units, "/common/", sub_shards_->shards(), reference_, wanted);
}

std::vector<NamedSlice> Average::lost_slices(const std::vector<model::UnitLayout>& units) const {
  if (residuals_.empty()) return {};
  return zero::named_slices(units, "/average/lost/", sub_shards_->shards(), residuals_, sub_shards_->shards());
}

std::vector<NamedSlice> Average::sent_slices(const std::vector<model::UnitLayout>& units) const {
  return zero::named_slices(units, "/average/sent/", sub_shards_->shards(), sent_, sub_shards_->shards());
}

std::vector<NamedSlice> Average::mean_slices(const std::vector<model::UnitLayout>& units,
                                             const std::vector<Range>& wanted) const {
  if (in_differences()) return {};
  std::vector<Span<float>> means;
  for (std::size_t u = 0; u < sub_shards_->units(); ++u) means.push_back(floats(u, sub_shards_->shards()[u]));
  return zero::named_slices(units, "/average/mean/", sub_shards_->shards(), means, wanted);
}

comm::Blocks Average::messages(Range units) const {
  return sub_shards_->blocks_across(units, [&](std::size_t u, Range range) { return message(u, range); });
}

Span<std::byte> Average::message(std::size_t unit, Range range) const {
  if (message_.empty()) return comm::bytes_of(sub_shards_->master(unit, range));
  const std::size_t size = size_of(sending_.type);
  return message_[unit].subspan((range.begin - sub_shards_->shards()[unit].begin) * size, range.size() * size);
}

Span<float> Average::floats(std::size_t unit, Range range) const {
  return {reinterpret_cast<float*>(message(unit, range).data()), range.size()};
}

const float* Average::common(std::size_t unit, Range range) const {
  return reference_[unit].subspan(range.begin - sub_shards_->shards()[unit].begin, range.size()).data();
}

}  // namespace shoal::sync
