// SPDX-License-Identifier: Apache-2.0
// Threads that go down two columns of a group of rows (rules/row_groups.hpp): a warp has the 64 columns of a step.
#pragma once

#include "kernels/cuda/row_in_registers.hpp"
#include "kernels/rules/row_groups.hpp"

namespace shoal::kernels::cuda {

inline constexpr unsigned steps_per_block = 4;

/// Blocks of threads for one group of rows. Those of all groups are numbered one after another, since CUDA counts 2^31
/// blocks in the grid's first dimension, and only 65535 in the others.
constexpr unsigned blocks_across(unsigned C) { return (C - 1) / (steps_per_block * per_step) + 1; }
inline __device__ unsigned own_group(unsigned C) { return blockIdx.x / blocks_across(C); }

/// The step whose columns this warp sums. A thread whose first column is beyond the row must return at once. If columns are
/// paired, the remaining threads have both of their columns, so that they may use Width<paired>.
inline __device__ unsigned own_columns(unsigned C) {
  return blockIdx.x % blocks_across(C) * steps_per_block + threadIdx.x / warp;
}

/// Calls add(row, read(row)) for the rows of a group, in order. read() only reads: the loads of at_a_time rows
/// are under way together.
template <unsigned at_a_time, class Read, class Add>
__device__ void over_group(unsigned group, unsigned rows, const Read& read, const Add& add) {
  constexpr auto group_size = static_cast<unsigned>(rows_per_group);
  const unsigned end = min((group + 1) * group_size, rows);
  unsigned row = group * group_size;
  for (; row + at_a_time <= end; row += at_a_time) {
    decltype(read(row)) values[at_a_time];
#pragma unroll
    for (unsigned k = 0; k < at_a_time; ++k) values[k] = read(row + k);
#pragma unroll
    for (unsigned k = 0; k < at_a_time; ++k) add(row + k, values[k]);
  }
  for (; row < end; ++row) add(row, read(row));
}

/// Stores what the two columns give. to: aligned for one element only.
template <bool paired, class W>
__device__ void store_columns(const Two& two, float* to, unsigned step, W width) {
  const unsigned first = Places<paired>::first(step), second = first + Places<paired>::distance;
  if (width.has(first)) to[first] = two.a;
  if (width.has(second)) to[second] = two.b;
}

/// Calls start(blocks, threads, stream), which starts a kernel on all columns of all groups.
template <class Start>
void launch_over_groups(const char* label, RowShape shape, const Start& start) {
  if (shape.rows == 0 || shape.C == 0) return;
  portable::require_countable(label, shape.rows);
  const std::size_t blocks = blocks_across(static_cast<unsigned>(shape.C)) * row_groups(shape.rows);
  portable::require_countable(label, blocks);
  {
    const device::Timed timed(label);
    start(static_cast<unsigned>(blocks), steps_per_block * warp, portable::detail::stream());
  }
  portable::detail::launched(label);
}

}  // namespace shoal::kernels::cuda
