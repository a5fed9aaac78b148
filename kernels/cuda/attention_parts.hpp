// SPDX-License-Identifier: Apache-2.0
// How much of attention a library computes at a time, so that its workspace is bounded. This does not depend on the GPU,
// since plans are made without one.
#pragma once

#include <algorithm>
#include <cstddef>

#include "shoal/base/types.hpp"
#include "shoal/kernels/attention.hpp"

namespace shoal::kernels::cuda {

/// Bytes that cuDNN's deterministic backward needs for a head of a sequence, at most: on GPUs before sm_100 the derivatives
/// of the scores, of 2 bytes, in whole tiles of 128 x 128; on sm_100 dq in float; on both a sum for each row.
constexpr std::size_t attention_head_bytes(std::size_t positions, std::size_t head_size) {
  constexpr std::size_t tile = 128;
  const std::size_t rows = round_up(positions, tile);
  return rows * std::max(rows * sizeof(bf16), round_up(head_size, tile) * sizeof(float)) + rows * sizeof(float);
}

/// What a part may need besides: counters and alignment.
inline constexpr std::size_t attention_part_extra_bytes = std::size_t{4} << 20U;
/// A part has no more heads than fit these bytes, but at least one. With what it needs besides these are 256 MiB: from
/// version 9.25 on cuDNN takes another, slower kernel for backward if that one's workspace is larger.
inline constexpr std::size_t attention_part_bytes = (std::size_t{256} << 20U) - attention_part_extra_bytes;

/// Whole sequences, or else some heads of one sequence.
struct AttentionPart {
  std::size_t sequences, heads;
};

constexpr AttentionPart attention_part(const AttentionShape& s) {
  const std::size_t fitting = std::max<std::size_t>(1, attention_part_bytes / attention_head_bytes(s.T, s.C / s.NH));
  if (fitting < s.NH) return {1, fitting};
  return {std::min(s.B, fitting / s.NH), s.NH};
}

/// Bytes of workspace of each part.
constexpr std::size_t attention_part_workspace_bytes(const AttentionShape& s) {
  const AttentionPart part = attention_part(s);
  return part.sequences * part.heads * attention_head_bytes(s.T, s.C / s.NH) + attention_part_extra_bytes;
}

/// Whether backward goes through several parts.
constexpr bool attention_is_cut(const AttentionShape& s) {
  const AttentionPart part = attention_part(s);
  return part.sequences < s.B || part.heads < s.NH;
}

/// Bytes for a copy of a part's logarithms, behind the workspace of the parts. Graphs take tensors at multiples of 16 bytes
/// alone, and if the number of positions is odd, the logarithms of a later part begin at any float.
constexpr std::size_t attention_copy_bytes(const AttentionShape& s) {
  const AttentionPart part = attention_part(s);
  return attention_is_cut(s) ? part.sequences * part.heads * s.T * sizeof(float) : 0;
}

/// Bytes of workspace that also suffice for fewer positions, as of a prompt. If the planned problem is cut into parts, parts
/// of fewer positions may have more heads, and so take more bytes.
constexpr std::size_t attention_planned_bytes(const AttentionShape& s) {
  const std::size_t bytes = attention_part_workspace_bytes(s);
  if (!attention_is_cut(s)) return bytes;
  const std::size_t copies = s.B * s.NH * s.T * sizeof(float);
  return std::max(bytes, attention_part_bytes + attention_part_extra_bytes) + copies;
}

}  // namespace shoal::kernels::cuda
