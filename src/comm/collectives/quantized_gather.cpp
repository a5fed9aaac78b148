// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "comm/collectives/quantized_blocks.hpp"
#include "shoal/base/bump_allocator.hpp"
#include "shoal/base/error.hpp"
#include "shoal/comm/quantized.hpp"

namespace shoal::comm {

using kernels::QuantError;
using kernels::QuantFormat;

namespace {

/// All-gathers the codes of the blocks by the tree, then dequantizes them. The tree's all-gather is counted and traced.
class QuantizedGather final : public Operation {
 public:
  QuantizedGather(Communicator& group, Blocks blocks, DType type, const QuantFormat& format, Span<std::byte> scratch,
                  QuantError* errors, Span<float> residual)
      : group_(group), blocks_(std::move(blocks)), type_(type), format_(format) {
    BumpAllocator memory(scratch, 1);
    for (const Block& block : blocks_) {
      wires_.push_back(memory.take_bytes(wire_bytes(block, type_, format_)));
      bytes_ += wires_.back().size();
    }
    const auto own = static_cast<std::size_t>(group.rank());
    require(residual.empty() || residual.size() == elements_of(blocks_[own], type_), "a residual of ", residual.size(),
            " elements for ", elements_of(blocks_[own], type_));
    quantize_sum(blocks_[own], type_, {BlockTerm::of(blocks_[own])}, format_, residual.empty() ? nullptr : residual.data(),
                 wires_[own].data());
    add_error(blocks_[own], type_, wires_[own].data(), format_, errors);
    tree_scratch_ = memory.take_bytes(tree_scratch_bytes(group.size(), bytes_));
  }

  std::string_view name() const override { return "all_gather"; }
  std::string describe() const override {
    return text("quantized all_gather of ", group_.name(), ", ", bytes_, " bytes of codes");
  }

  /// Dequantizes one block per call, so that no call takes long.
  bool advance() override {
    if (!std::exchange(started_, true)) {
      Blocks wires;
      for (const Span<std::byte> wire : wires_) wires.push_back({wire});
      gather_ = tree_all_gather(group_, std::move(wires), tree_scratch_);
      return false;
    }
    if (!gather_.test()) return false;
    if (done_ < blocks_.size()) {
      sum_to_block(blocks_[done_], type_, {BlockTerm::of_codes(format_.bits, wires_[done_].data())}, format_);
      ++done_;
    }
    return done_ == blocks_.size();
  }

 protected:
  std::optional<device::Queue> queue() const override { return device::Queue::gather; }
  bool whole_at_start() const override { return group_.queued(); }

 private:
  Communicator& group_;
  Blocks blocks_;
  DType type_;
  QuantFormat format_;
  std::vector<Span<std::byte>> wires_;
  Span<std::byte> tree_scratch_;
  std::size_t bytes_ = 0, done_ = 0;
  bool started_ = false;
  Request gather_;
};

}  // namespace

Request quantized_all_gather(Communicator& group, Blocks blocks, DType type, const QuantFormat& format,
                             Span<std::byte> scratch, QuantError* errors, Span<float> residual) {
  const auto ranks = static_cast<std::size_t>(group.size());
  check_blocks(blocks, ranks, type);
  if (ranks == 1) return {};
  return Request(std::make_shared<QuantizedGather>(group, std::move(blocks), type, format, scratch, errors, residual));
}

std::size_t quantized_block_bytes(const std::vector<std::size_t>& spans, const QuantFormat& format) {
  std::size_t bytes = 0;
  for (const std::size_t elements : spans) bytes += kernels::quantized_bytes(elements, format);
  return bytes;
}

std::size_t quantized_gather_scratch_bytes(int group_size, std::size_t elements, std::size_t spans,
                                           const QuantFormat& format) {
  if (group_size == 1) return 0;
  const std::size_t codes = most_wire_bytes(elements, spans, format);
  return codes + tree_scratch_bytes(group_size, codes);
}

}  // namespace shoal::comm
