// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "shoal/pipeline/border.hpp"

namespace shoal::pipeline {

/// Numbers of buffers of one stage.
struct Buffers {
  std::vector<std::size_t> activations, gradients;       ///< received, by part of the stage
  std::size_t sent_activations = 0, sent_gradients = 0;  ///< for all parts of the stage
  /// The same for the skip connection.
  struct Skip {
    std::size_t activations = 0, gradients = 0, sent_activations = 0, sent_gradients = 0;
    bool operator==(const Skip&) const = default;
  };
  Skip skip = {};
  std::size_t total() const;
  bool operator==(const Buffers&) const = default;

 private:
  template <typename Self>
  static auto& received_of(Self& self, const Border& border, std::size_t part) {
    const bool is_forward = border.kind == Action::Kind::forward;
    if (border.skip) return is_forward ? self.skip.activations : self.skip.gradients;
    return (is_forward ? self.activations : self.gradients)[part];
  }
  template <typename Self>
  static auto& sent_of(Self& self, const Border& border) {
    const bool is_forward = border.kind == Action::Kind::forward;
    if (border.skip) return is_forward ? self.skip.sent_activations : self.skip.sent_gradients;
    return is_forward ? self.sent_activations : self.sent_gradients;
  }

 public:
  /// The number of those into which borders like this one are received, which is for this part of the stage.
  std::size_t& received(const Border& border, std::size_t part) { return received_of(*this, border, part); }
  std::size_t received(const Border& border, std::size_t part) const { return received_of(*this, border, part); }
  /// The number of those from which borders like this one are sent.
  std::size_t& sent(const Border& border) { return sent_of(*this, border); }
  std::size_t sent(const Border& border) const { return sent_of(*this, border); }
};

}  // namespace shoal::pipeline
