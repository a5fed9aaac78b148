// SPDX-License-Identifier: Apache-2.0
#include "shoal/comm/reducer.hpp"

#include <utility>

#include "shoal/base/error.hpp"

namespace shoal::comm {

Request Reducer::all_reduce(const Blocks&, DType) {
  require(false, "this reducer has no all-reduce");
  return {};
}

namespace {

/// A single rank holds every sum and every block from the start.
class OneRank final : public Reducer {
 public:
  Request reduce_scatter(Blocks, DType, Span<std::byte>, const QuantState&) override { return {}; }
  Request all_gather(Blocks, DType, Span<std::byte>, const QuantState&) override { return {}; }
  std::size_t reduce_scratch_bytes(const MessageBounds&, DType) const override { return 0; }
  std::size_t gather_scratch_bytes(const MessageBounds&, DType) const override { return 0; }
};

class TreeReducer final : public Reducer {
 public:
  TreeReducer(int ranks, Communicator* group) : ranks_(ranks), group_(group) {}
  Request reduce_scatter(Blocks blocks, DType type, Span<std::byte> scratch, const QuantState&) override {
    return tree_reduce_scatter(*group_, std::move(blocks), type, scratch);
  }
  Request all_gather(Blocks blocks, DType, Span<std::byte> scratch, const QuantState&) override {
    return tree_all_gather(*group_, std::move(blocks), scratch);
  }
  std::size_t reduce_scratch_bytes(const MessageBounds& bounds, DType type) const override {
    return tree_scratch_bytes(ranks_, bounds.elements * size_of(type));
  }
  std::size_t gather_scratch_bytes(const MessageBounds& bounds, DType type) const override {
    return reduce_scratch_bytes(bounds, type);
  }

 private:
  int ranks_;
  Communicator* group_;
};

class NativeReducer final : public Reducer {
 public:
  explicit NativeReducer(Communicator* group) : group_(group) {}
  Request reduce_scatter(Blocks blocks, DType type, Span<std::byte> scratch, const QuantState&) override {
    return native_reduce_scatter(*group_, std::move(blocks), type, scratch);
  }
  Request all_gather(Blocks blocks, DType, Span<std::byte> scratch, const QuantState&) override {
    return native_all_gather(*group_, std::move(blocks), scratch);
  }
  bool has_all_reduce() const override { return true; }
  Request all_reduce(const Blocks& blocks, DType type) override { return native_all_reduce(*group_, blocks, type); }
  std::size_t reduce_scratch_bytes(const MessageBounds& bounds, DType type) const override {
    return native_scratch_bytes(bounds.elements * size_of(type));
  }
  std::size_t gather_scratch_bytes(const MessageBounds& bounds, DType type) const override {
    return reduce_scratch_bytes(bounds, type);
  }

 private:
  Communicator* group_;
};

class QuantizedReducer final : public Reducer {
 public:
  QuantizedReducer(const QuantizedGroups& groups, const ReduceFormats& formats) : groups_(groups), formats_(formats) {}
  Request reduce_scatter(Blocks blocks, DType type, Span<std::byte> scratch, const QuantState& state) override {
    const Hierarchy ranks{*groups_.all, *groups_.node, *groups_.across};
    return quantized_reduce_scatter(ranks, std::move(blocks), type, formats_, scratch, {{}, state.residual}, state.errors);
  }
  Request all_gather(Blocks blocks, DType type, Span<std::byte> scratch, const QuantState& state) override {
    return quantized_all_gather(*groups_.all, std::move(blocks), type, formats_.across, scratch, state.errors,
                                state.residual);
  }
  std::size_t reduce_scratch_bytes(const MessageBounds& bounds, DType) const override {
    return quantized_reduce_scratch_bytes(groups_.ranks_per_node, groups_.ranks / groups_.ranks_per_node,
                                          bounds.block_elements, bounds.spans_per_block, formats_);
  }
  std::size_t gather_scratch_bytes(const MessageBounds& bounds, DType) const override {
    const std::size_t spans = static_cast<std::size_t>(groups_.ranks) * bounds.spans_per_block;
    return quantized_gather_scratch_bytes(groups_.ranks, bounds.elements, spans, formats_.across);
  }

 private:
  QuantizedGroups groups_;
  ReduceFormats formats_;
};

}  // namespace

Use use_of(Collectives how, int ranks) {
  if (ranks == 1) return Use::kernels;
  return how == Collectives::native ? Use::collectives : Use::messages;
}

std::unique_ptr<Reducer> make_reducer(Collectives how, int ranks, Communicator* group) {
  if (ranks == 1) return std::make_unique<OneRank>();
  if (how == Collectives::native) return std::make_unique<NativeReducer>(group);
  return std::make_unique<TreeReducer>(ranks, group);
}

std::unique_ptr<Reducer> make_quantized_reducer(const QuantizedGroups& groups, const ReduceFormats& formats) {
  if (groups.ranks == 1) return std::make_unique<OneRank>();
  return std::make_unique<QuantizedReducer>(groups, formats);
}

}  // namespace shoal::comm
