// SPDX-License-Identifier: Apache-2.0
// Activation checkpointing (Chen, Xu, Zhang, Guestrin 2016, "Training Deep Nets with Sublinear Memory Cost"). Layers are
// divided into segments. Forward saves only the input of each segment, and all activations of the last one. Backward
// computes the other activations again, one segment after another:
//
//   layer               0   1   2   3   4   5   6   7       8 layers in segments of 3
//   segment            |first| |  middle | |   last  |      the first may be shorter
//   saved input         x       x           x
//
//   backward:  7, 6, 5 from what forward saved
//              compute 2 and 3 again; 4, which is computed again at the same time; 3, 2
//              compute 0 again; 1, which is computed again at the same time; 0
//
// The last segment is never the shorter one, since it is the one that is not computed again. Where several micro-batches
// are between forward and backward, some may keep the inputs of segments alone (Part::whole_slots): then the last segment is
// computed again, too, and all of them use the same memory for that. Results have the same bits as without segments: the
// same kernels run on the same values, and dropout's mask does not depend on when it is computed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "part_layers.hpp"
#include "shoal/model/model.hpp"

namespace shoal::model {

class Segments {
 public:
  /// interval: as in ActivationOptions.
  Segments(std::size_t layers, std::int64_t interval);

  std::size_t layers() const { return layers_; }
  /// Number of layers of the longest segment: the activations of this many layers exist at the same time.
  std::size_t longest() const { return longest_; }
  /// First layer of the segment that `layer` is in.
  std::size_t first_of(std::size_t layer) const;
  /// First layer of the last segment.
  std::size_t first_of_last_segment() const { return layers_ - longest_; }
  bool is_last_of_segment(std::size_t layer) const { return (layers_ - 1 - layer) % longest_ == 0; }

  /// Calls again() and back() in the order of backward. again(layer) computes the output and the activations of a layer from
  /// its input. back(layer, again) is the backward of a layer. If `again` is true, it must first compute the activations in
  /// the same use of the unit; the output is not needed. last_kept: forward has saved the activations of the last segment.
  template <typename Again, typename Back>
  void backward(bool last_kept, Again&& again, Back&& back) const {
    for (std::size_t end = layers_; end > 0;) {
      const std::size_t begin = first_of(end - 1);
      const bool forgotten = end < layers_ || !last_kept;
      for (std::size_t layer = begin; forgotten && layer + 1 < end; ++layer) again(layer);
      for (std::size_t layer = end; layer-- > begin;) back(layer, forgotten && layer + 1 == end);
      end = begin;
    }
  }

 private:
  std::size_t layers_, longest_;
};

/// The orders of use (model::use_orders()) for a model whose units are an embedding, the layers and a head. segments: of the
/// layers of the part. head: the units that forward acquires for the head, whose backward belongs to the same use.
UseOrders use_orders_of(const Segments& segments, const PartLayers& part, const std::vector<int>& head, bool training);

}  // namespace shoal::model
