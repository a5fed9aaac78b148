// SPDX-License-Identifier: Apache-2.0
// The activations that a GPT keeps between the forward and the backward pass of a micro-batch, and which blocks and slots
// use the same buffers.
#pragma once

#include <cstdint>
#include <vector>

#include "block.hpp"
#include "segments.hpp"
#include "shoal/base/memory.hpp"

namespace shoal::model::gpt {

/// What forward saves for the backward pass of one micro-batch.
template <typename T>
struct Slot {
  bool whole = true;                        ///< the activations of the last segment are not computed again
  std::vector<BlockActivations<T>> blocks;  ///< by block of the part
  std::vector<T*> inputs;                   ///< by block: its input, which is blocks[i].x; null if it crosses the border
  T* gradient = nullptr;                    ///< [rows, C], of the last block's output: forward makes it, in the head's part
  T* direct_gradient = nullptr;  ///< the same of the first block's input through a direct connection, in a whole model
  MicroBatch batch;              ///< of the last forward
  const std::int32_t *tokens = nullptr, *targets = nullptr;  ///< on the device
};

/// The buffers for the activations of a segment's blocks. inputs: of the blocks after the first.
template <typename T>
struct SegmentBuffers {
  std::vector<BlockActivations<T>> blocks;
  std::vector<T*> inputs;
};

template <typename T>
T* take_stream(const BlockShape& s, Memory& memory) {
  return memory.take<T>(Kind::activations, s.rows() * s.C, "residual stream").data();
}

template <typename T>
T* take_keys_and_values(const BlockShape& s, Memory& memory) {
  return memory.take<T>(Kind::activations, s.rows() * 3 * s.C, "keys and values").data();
}

/// Without training blocks have no x_mid: they work in place.
template <typename T>
SegmentBuffers<T> take_segment(const BlockShape& s, std::size_t blocks, bool training, Memory& memory) {
  const auto statistics = [&](std::size_t elements) {
    return memory.take<float>(Kind::activations, elements, "statistics").data();
  };
  SegmentBuffers<T> buffers{std::vector<BlockActivations<T>>(blocks), std::vector<T*>(blocks, nullptr)};
  for (std::size_t i = 0; i < blocks; ++i) {
    if (i > 0) buffers.inputs[i] = take_stream<T>(s, memory);
    BlockActivations<T>& a = buffers.blocks[i];
    a.x_mid = training ? take_stream<T>(s, memory) : nullptr;
    a.qkv = take_keys_and_values<T>(s, memory);
    a.attention = memory.take<T>(Kind::activations, s.rows() * s.C, "attention outputs").data();
    a.u = memory.take<T>(Kind::activations, s.rows() * s.inner, "MLP pre-activations").data();
    a.logsumexp = statistics(s.B * s.NH * s.T);
    for (float** kept : {&a.mean_1, &a.rstd_1, &a.mean_2, &a.rstd_2}) *kept = statistics(s.rows());
  }
  return buffers;
}

/// A slot of training, whose segments all use the same buffers, one after the other, except that each has its own input.
/// first_input: the slot has memory for the input of the first block, which does not cross the border.
template <typename T>
Slot<T> take_slot(const BlockShape& s, const Segments& segments, const SegmentBuffers<T>& buffers, bool first_input,
                  Memory& memory) {
  Slot<T> slot;
  for (std::size_t i = 0; i < segments.layers(); ++i) {
    const std::size_t place = i - segments.first_of(i);
    const bool own = place == 0 && (i > 0 || first_input);
    slot.inputs.push_back(own ? take_stream<T>(s, memory) : buffers.inputs[place]);
    slot.blocks.push_back(buffers.blocks[place]);
    slot.blocks.back().x = slot.inputs.back();
  }
  return slot;
}

/// The slots of a part in training. Those that keep all activations have buffers for one segment of their own, in which the
/// last segment stays until backward; the others share such buffers.
template <typename T>
std::vector<Slot<T>> take_slots(const BlockShape& s, const Segments& segments, const Part& part, bool first_input,
                                Memory& memory) {
  std::vector<Slot<T>> slots;
  SegmentBuffers<T> buffers;
  for (std::size_t i = 0; i < part.slots; ++i) {
    if (i <= part.whole_slots) buffers = take_segment<T>(s, segments.longest(), true, memory);
    slots.push_back(take_slot(s, segments, buffers, first_input, memory));
    slots.back().whole = i < part.whole_slots;
  }
  return slots;
}

}  // namespace shoal::model::gpt
