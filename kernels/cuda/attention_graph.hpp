// SPDX-License-Identifier: Apache-2.0
// What attention.cpp asks of a library: a graph for a part of the sequences and heads. Defined by attention_cudnn.cpp; tests
// define their own.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace shoal::kernels::cuda {

/// All that a graph depends on. Attention is causal, scores are scaled by 1 / sqrt(head_size).
struct AttentionKey {
  enum class Pass : std::uint8_t { forward, backward };
  enum class Element : std::uint8_t { bf16, f16 };
  Pass pass = Pass::forward;
  Element element = Element::bf16;
  std::size_t sequences = 0, heads = 0;  ///< of the part
  std::size_t positions = 0, head_size = 0;
  std::size_t channels = 0;  ///< of all heads: a row of out has them once, a row of q, k or v thrice
  auto operator<=>(const AttentionKey&) const = default;  // NOLINT(modernize-use-nullptr): it is no pointer
};

/// Where a part begins. Heads are next to each other; a row of q, k, v and their gradients has 3 * channels elements, one of
/// out and dout has `channels`. logsumexp is [sequences, heads, positions] without gaps.
struct AttentionTensors {
  const void *q = nullptr, *k = nullptr, *v = nullptr;
  void* out = nullptr;         ///< forward writes it, backward reads it
  float* logsumexp = nullptr;  ///< forward writes it, backward reads it
  const void* dout = nullptr;
  void *dq = nullptr, *dk = nullptr, *dv = nullptr;
};

class AttentionGraph {
 public:
  AttentionGraph() = default;
  virtual ~AttentionGraph() = default;
  AttentionGraph(const AttentionGraph&) = delete;
  AttentionGraph& operator=(const AttentionGraph&) = delete;
  virtual std::size_t workspace_bytes() const = 0;
  /// Enqueues it on the current queue. The workspace's address is a multiple of 256.
  virtual void run(const AttentionTensors& tensors, std::byte* workspace) = 0;
};

/// Null if the library cannot do it on this GPU; then `why` says why, in one line. The results have the same bits in all
/// runs.
std::unique_ptr<AttentionGraph> make_attention_graph(const AttentionKey& key, std::string& why);

}  // namespace shoal::kernels::cuda
