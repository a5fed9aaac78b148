// SPDX-License-Identifier: Apache-2.0
#include "shoal/comm/collectives.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "shoal/base/error.hpp"
#include "shoal/base/names.hpp"

namespace shoal::comm {

namespace {

std::size_t bytes_of_block(const std::vector<Span<std::byte>>& block) {
  return std::accumulate(block.begin(), block.end(), std::size_t{0},
                         [](std::size_t sum, Span<std::byte> span) { return sum + span.size(); });
}

std::vector<std::size_t> block_sizes(const Blocks& blocks) {
  std::vector<std::size_t> sizes;
  for (const auto& block : blocks) sizes.push_back(bytes_of_block(block));
  return sizes;
}

/// The spans of all blocks, in order; spans that are adjacent in memory are joined.
std::vector<Span<std::byte>> joined(const Blocks& blocks) {
  std::vector<Span<std::byte>> spans;
  for (const auto& block : blocks) {
    for (const Span<std::byte> span : block) {
      if (!spans.empty() && spans.back().data() + spans.back().size() == span.data()) {
        spans.back() = {spans.back().data(), spans.back().size() + span.size()};
      } else {
        spans.push_back(span);
      }
    }
  }
  return spans;
}

std::size_t copy_out(const std::vector<Span<std::byte>>& block, std::byte* to) {
  std::size_t at = 0;
  for (const Span<std::byte> span : block) {
    std::memcpy(to + at, span.data(), span.size());
    at += span.size();
  }
  return at;
}

std::size_t copy_in(const std::byte* from, const std::vector<Span<std::byte>>& block) {
  std::size_t at = 0;
  for (const Span<std::byte> span : block) {
    std::memcpy(span.data(), from + at, span.size());
    at += span.size();
  }
  return at;
}

/// Waits for operations of the library. finish(): called when they are complete.
class NativeOperation : public Operation {
 public:
  NativeOperation(std::string_view name, const Communicator& group) : name_(name), group_(group.name()) {}
  std::string_view name() const override { return name_; }
  std::string describe() const override { return text("native ", name_, " of ", group_); }
  bool advance() override {
    const bool complete = std::all_of(requests_.begin(), requests_.end(), [](Request& request) { return request.test(); });
    if (complete) finish();
    return complete;
  }

 protected:
  virtual void finish() {}
  std::vector<Request> requests_;

 private:
  std::string_view name_;
  const std::string& group_;
};

class NativeReduceScatter final : public NativeOperation {
 public:
  NativeReduceScatter(Communicator& group, Blocks blocks, Span<std::byte> scratch)
      : NativeOperation("reduce_scatter", group), own_(blocks[static_cast<std::size_t>(group.rank())]) {
    const std::vector<std::size_t> sizes = block_sizes(blocks);
    const std::size_t own = sizes[static_cast<std::size_t>(group.rank())];
    const std::size_t total = std::accumulate(sizes.begin(), sizes.end(), std::size_t{0});
    const std::vector<Span<std::byte>> spans = joined(blocks);
    Span<std::byte> all = spans.empty() ? Span<std::byte>() : spans.front();
    sum_ = scratch.subspan(total, own);
    if (spans.size() > 1) {  // the library needs one contiguous buffer
      all = scratch.first(total);
      std::size_t at = 0;
      for (const auto& block : blocks) at += copy_out(block, all.data() + at);
    }
    requests_.push_back(group.wire().reduce_scatter(all, sizes, sum_));
  }

 private:
  void finish() override { copy_in(sum_.data(), own_); }

  std::vector<Span<std::byte>> own_;
  Span<std::byte> sum_;
};

class NativeAllGather final : public NativeOperation {
 public:
  NativeAllGather(Communicator& group, Blocks blocks, Span<std::byte> scratch)
      : NativeOperation("all_gather", group), blocks_(std::move(blocks)) {
    const std::vector<std::size_t> sizes = block_sizes(blocks_);
    const std::vector<Span<std::byte>> spans = joined(blocks_);
    Span<std::byte> all = spans.empty() ? Span<std::byte>() : spans.front();
    if (spans.size() > 1) {
      packed_ = all = scratch.first(std::accumulate(sizes.begin(), sizes.end(), std::size_t{0}));
      const auto own = static_cast<std::size_t>(group.rank());
      const auto before = std::accumulate(sizes.begin(), sizes.begin() + group.rank(), std::size_t{0});
      copy_out(blocks_[own], all.data() + before);
    }
    requests_.push_back(group.wire().all_gather_parts(all, sizes));
  }

 private:
  void finish() override {
    if (packed_.empty()) return;
    std::size_t at = 0;
    for (const auto& block : blocks_) at += copy_in(packed_.data() + at, block);
  }

  Blocks blocks_;
  Span<std::byte> packed_;
};

class NativeAllReduce final : public NativeOperation {
 public:
  NativeAllReduce(Communicator& group, const Blocks& blocks) : NativeOperation("all_reduce", group) {
    for (const Span<std::byte> span : joined(blocks)) {
      auto* const first = reinterpret_cast<float*>(span.data());
      requests_.push_back(group.wire().all_reduce(Span<float>(first, span.size() / sizeof(float)), Reduce::sum));
    }
  }
};

/// The traffic if a rank sends the same number of bytes to all others. The library's algorithm is not known; this is a lower
/// bound.
Traffic sent_evenly(const Communicator& group, std::size_t bytes) {
  const auto others = static_cast<std::size_t>(group.size() - 1);
  std::size_t node_peers = 0;
  for (int r = 0; r < group.size(); ++r) node_peers += r != group.rank() && group.same_node(r) ? 1 : 0;
  const std::size_t intra = bytes * node_peers / others;
  return {intra, bytes - intra};
}

void require_fp32(DType type) { require(type == DType::f32, "native collectives sum fp32 only, not ", name_of(type)); }

std::size_t total(const Blocks& blocks) {
  const std::vector<std::size_t> sizes = block_sizes(blocks);
  return std::accumulate(sizes.begin(), sizes.end(), std::size_t{0});
}

}  // namespace

Request native_reduce_scatter(Communicator& group, Blocks blocks, DType type, Span<std::byte> scratch) {
  if (group.size() == 1) return {};
  require_fp32(type);
  const std::size_t bytes = total(blocks), own = bytes_of_block(blocks[static_cast<std::size_t>(group.rank())]);
  require(scratch.size() >= native_scratch_bytes(bytes), "scratch of a native reduce_scatter");
  const Traffic sent = sent_evenly(group, bytes - own);
  return group.start(std::make_shared<NativeReduceScatter>(group, std::move(blocks), scratch), sent);
}

Request native_all_gather(Communicator& group, Blocks blocks, Span<std::byte> scratch) {
  if (group.size() == 1) return {};
  const std::size_t bytes = total(blocks), own = bytes_of_block(blocks[static_cast<std::size_t>(group.rank())]);
  require(scratch.size() >= native_scratch_bytes(bytes), "scratch of a native all_gather");
  const Traffic sent = sent_evenly(group, own * static_cast<std::size_t>(group.size() - 1));
  return group.start(std::make_shared<NativeAllGather>(group, std::move(blocks), scratch), sent);
}

std::size_t native_scratch_bytes(std::size_t bytes) {
  return 2 * bytes;  // a message in contiguous memory, and a rank's part of the sum, which may be all of a small message
}

Request native_all_reduce(Communicator& group, const Blocks& blocks, DType type) {
  if (group.size() == 1) return {};
  require_fp32(type);
  const auto size = static_cast<std::size_t>(group.size());
  const Traffic sent = sent_evenly(group, 2 * total(blocks) * (size - 1) / size);
  return group.start(std::make_shared<NativeAllReduce>(group, blocks), sent);
}

}  // namespace shoal::comm
