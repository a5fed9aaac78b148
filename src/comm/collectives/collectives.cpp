// SPDX-License-Identifier: Apache-2.0
#include "shoal/comm/collectives.hpp"

#include <algorithm>
#include <numeric>

#include "comm/operations/messages.hpp"
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

/// All blocks as one message of any size.
Message joined(const Blocks& blocks) {
  Message message;
  std::vector<Span<std::byte>>& spans = message.spans;
  for (const auto& block : blocks) {
    for (const Span<std::byte> span : block) {
      message.bytes += span.size();
      if (!spans.empty() && spans.back().data() + spans.back().size() == span.data()) {
        spans.back() = {spans.back().data(), spans.back().size() + span.size()};
      } else {
        spans.push_back(span);
      }
    }
  }
  return message;
}

/// The memory of a message that needs no packing, which may be empty.
Span<std::byte> in_place(const Message& message) {
  return message.spans.empty() ? Span<std::byte>() : message.spans.front();
}

/// Waits for operations of the library. finish(): called when they are complete.
class NativeOperation : public Operation {
 public:
  NativeOperation(std::string_view name, const Communicator& group)
      : name_(name), group_(group.name()), queued_(group.queued()) {}
  std::string_view name() const override { return name_; }
  std::string describe() const override { return text("native ", name_, " of ", group_); }
  bool advance() override {
    const bool complete = std::all_of(requests_.begin(), requests_.end(), [](Request& request) { return request.test(); });
    if (complete) finish();
    return complete;
  }

 protected:
  bool whole_at_start() const override { return queued_; }
  virtual void finish() {}
  std::vector<Request> requests_;

 private:
  std::string_view name_;
  const std::string& group_;
  bool queued_;
};

class NativeReduceScatter final : public NativeOperation {
 public:
  NativeReduceScatter(Communicator& group, const Blocks& blocks, Span<std::byte> scratch)
      : NativeOperation("reduce_scatter", group), own_(joined({blocks[static_cast<std::size_t>(group.rank())]})) {
    const Message message = joined(blocks);
    Span<std::byte> all = in_place(message);
    sum_ = scratch.subspan(message.bytes, own_.bytes);
    if (message.packed()) {  // the library needs one contiguous buffer
      all = scratch.first(message.bytes);
      pack(message, all);
    }
    requests_.push_back(group.wire().reduce_scatter(all, block_sizes(blocks), sum_));
  }

 private:
  void finish() override { unpack(sum_, own_); }

  Message own_;
  Span<std::byte> sum_;
};

class NativeAllGather final : public NativeOperation {
 public:
  NativeAllGather(Communicator& group, const Blocks& blocks, Span<std::byte> scratch)
      : NativeOperation("all_gather", group), message_(joined(blocks)) {
    const std::vector<std::size_t> sizes = block_sizes(blocks);
    Span<std::byte> all = in_place(message_);
    if (message_.packed()) {
      packed_ = all = scratch.first(message_.bytes);
      const auto before = std::accumulate(sizes.begin(), sizes.begin() + group.rank(), std::size_t{0});
      pack(joined({blocks[static_cast<std::size_t>(group.rank())]}), all.subspan(before));
    }
    requests_.push_back(group.wire().all_gather_parts(all, sizes));
  }

 protected:
  std::optional<device::Queue> queue() const override { return device::Queue::gather; }

 private:
  void finish() override {
    if (!packed_.empty()) unpack(packed_, message_);
  }

  Message message_;
  Span<std::byte> packed_;
};

class NativeAllReduce final : public NativeOperation {
 public:
  NativeAllReduce(Communicator& group, const Blocks& blocks) : NativeOperation("all_reduce", group) {
    const Message message = joined(blocks);
    for (const Span<std::byte> span : message.spans) {
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
  return group.start(std::make_shared<NativeReduceScatter>(group, blocks, scratch), sent);
}

Request native_all_gather(Communicator& group, Blocks blocks, Span<std::byte> scratch) {
  if (group.size() == 1) return {};
  const std::size_t bytes = total(blocks), own = bytes_of_block(blocks[static_cast<std::size_t>(group.rank())]);
  require(scratch.size() >= native_scratch_bytes(bytes), "scratch of a native all_gather");
  const Traffic sent = sent_evenly(group, own * static_cast<std::size_t>(group.size() - 1));
  return group.start(std::make_shared<NativeAllGather>(group, blocks, scratch), sent);
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
