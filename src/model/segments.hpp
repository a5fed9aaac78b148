// SPDX-License-Identifier: Apache-2.0
// Layers cut into segments, of whose activations only the inputs outlive forward; backward computes the rest again, one
// segment after another (Chen, Xu, Zhang, Guestrin 2016, "Training Deep Nets with Sublinear Memory Cost"):
//
//   layer               0   1   2   3   4   5   6   7       8 layers, 3 at a time
//   segment            |first| |  middle | |   last  |      the first may be shorter
//   kept input          x       x           x
//   backward            6th 5th 4th: 3 and 2 again, then 4, 3, 2 back       1st: what forward left is used as it is
//
// The last segment is whole, for it is the one that nothing computes again. Results are bitwise those without segments: the
// same kernels run on the same values, and dropout is a function of its place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace shoal::model {

class Segments {
 public:
  /// interval: as in ActivationOptions.
  Segments(std::size_t layers, std::int64_t interval);

  std::size_t layers() const { return layers_; }
  /// The most layers of a segment: as many have activations at one time.
  std::size_t longest() const { return longest_; }
  /// First layer of the segment that `layer` is in.
  std::size_t first_of(std::size_t layer) const;
  /// First layer of the last segment.
  std::size_t first_of_last_segment() const { return layers_ - longest_; }
  bool is_last_of_segment(std::size_t layer) const { return (layers_ - 1 - layer) % longest_ == 0; }

  /// Backward's order. again(layer): from its input, its output and what its backward needs. back(layer, again): its
  /// backward; where `again` is true, what it needs is made first, in the same visit, and its output is not asked for.
  template <typename Again, typename Back>
  void backward(Again&& again, Back&& back) const {
    for (std::size_t end = layers_; end > 0;) {
      const std::size_t begin = first_of(end - 1);
      const bool forgotten = end < layers_;
      for (std::size_t layer = begin; forgotten && layer + 1 < end; ++layer) again(layer);
      for (std::size_t layer = end; layer-- > begin;) back(layer, forgotten && layer + 1 == end);
      end = begin;
    }
  }

 private:
  std::size_t layers_, longest_;
};

/// The visits of a model whose units are an embedding, the layers and a head. head: what forward's visit of the head
/// acquires.
std::vector<std::vector<int>> visits_of(const Segments& segments, const std::vector<int>& head, bool training);

}  // namespace shoal::model
