// SPDX-License-Identifier: Apache-2.0
// The gradient of the embeddings on a GPU. Rows of the same token are added one after another, in their order, so they need
// one thread for each column; rows of other tokens are independent. On an H200 the portable kernel, which has only one team
// for 256 columns, reached 0.1 % of a copy's rate.
//
// A block has 32 rows, and owns those of their tokens that no row before them has. It looks for all rows of its tokens by
// reading the whole list of tokens, which the second-level cache holds, and notes them as bits: 32 tokens by 16384 rows in
// shared memory. So they are found in any order and added in the right one. A warp then adds the rows of a token to 128
// columns of the table, many rows' loads in flight.
#include <type_traits>

#include "kernels/common/instances.hpp"
#include "kernels/cuda/wide_access.hpp"
#include "kernels/portable/launch.hpp"
#include "shoal/kernels/embedding.hpp"

namespace shoal::kernels {

namespace {

constexpr unsigned warp = 32, threads = 512, warps = threads / warp;
constexpr unsigned keys = warp;        // tokens of a block, one for each lane
constexpr unsigned group = warp * 32;  // rows of 32 words of bits, one for each lane
constexpr unsigned groups = 16, chunk = groups * group, words = chunk / 32;
constexpr unsigned slots = 256;  // of the hash table of a block's tokens
constexpr unsigned everyone = 0xffffffffU;
constexpr std::int32_t no_token = -1;

struct Block {
  std::uint32_t bits[keys * words];  ///< rows of the chunk that have the token
  std::uint32_t groups_with_bits[keys];
  std::uint32_t owned;           ///< one bit for each key
  std::int32_t token_at[slots];  ///< no_token: empty
  std::uint32_t key_at[slots];
  std::uint16_t found[warps][group];  ///< the rows that a warp adds, in order
};
static_assert(sizeof(Block) <= 99 * 1024, "GPUs of capability 8.6, 8.9 and 12 give a block no more shared memory");

__device__ unsigned slot_of(std::int32_t token) { return static_cast<std::uint32_t>(token) * 2654435761U >> 24U; }

/// By the first warp: the distinct tokens of the block's rows become its keys.
__device__ void choose_keys(const std::int32_t* tokens, unsigned first, unsigned rows, Block& block) {
  const unsigned lane = threadIdx.x, row = first + lane;
  const std::int32_t token = row < rows ? tokens[row] : no_token;
  const unsigned same = __match_any_sync(everyone, token);
  const bool leads = token != no_token && __ffs(static_cast<int>(same)) - 1 == static_cast<int>(lane);
  if (leads) {
    unsigned slot = slot_of(token);
    while (atomicCAS(&block.token_at[slot], no_token, token) != no_token) slot = (slot + 1) % slots;
    block.key_at[slot] = lane;
  }
  const unsigned leaders = __ballot_sync(everyone, leads);
  if (lane == 0) block.owned = leaders;
}

/// Notes that `row`, of the chunk that begins at `begin`, has this token.
__device__ void note(std::int32_t token, unsigned row, unsigned begin, unsigned first, Block& block) {
  for (unsigned slot = slot_of(token); block.token_at[slot] != no_token; slot = (slot + 1) % slots) {
    if (block.token_at[slot] != token) continue;
    const unsigned key = block.key_at[slot], at = row - begin;
    if (row < first) {
      atomicAnd(&block.owned, ~(1U << key));
    } else {
      atomicOr(&block.bits[key * words + at / 32], 1U << at % 32);
      atomicOr(&block.groups_with_bits[key], 1U << at / group);
    }
    return;
  }
}

/// Lists the rows of a group that have the key's token, and returns their number.
__device__ unsigned list_rows(const std::uint32_t* bits, std::uint16_t* found) {
  const unsigned lane = threadIdx.x % warp;
  std::uint32_t word = bits[lane];
  const auto here = static_cast<unsigned>(__popc(word));
  unsigned until = here;
  for (unsigned distance = 1; distance < warp; distance *= 2) {
    const unsigned before = __shfl_up_sync(everyone, until, distance);
    if (lane >= distance) until += before;
  }
  __syncwarp();  // the last list has been read
  for (unsigned at = until - here; word != 0; word &= word - 1) {
    found[at++] = static_cast<std::uint16_t>(lane * 32 + static_cast<unsigned>(__ffs(static_cast<int>(word)) - 1));
  }
  __syncwarp();
  return __shfl_sync(everyone, until, warp - 1);
}

/// Adds `count` rows, whose loads are all started before the first one is needed.
template <unsigned count, unsigned width, typename T>
__device__ void add_rows(const T* dx, std::size_t C, const std::uint16_t* rows, cuda::Pack<float, width>& sum) {
  cuda::Pack<T, width> loaded[count];
#pragma unroll
  for (unsigned i = 0; i < count; ++i) loaded[i] = cuda::load<width>(dx + rows[i] * C);
#pragma unroll
  for (unsigned i = 0; i < count; ++i) {
#pragma unroll
    for (unsigned c = 0; c < width; ++c) sum.at[c] += static_cast<float>(loaded[i].at[c]);
  }
}

/// Adds the rows of the chunk that have key's token to `width` columns for each lane. The chunk's gradients begin at dx.
template <unsigned width, typename T>
__device__ void add_key(const T* dx, std::size_t C, std::size_t column, unsigned key, float* sums, Block& block) {
  constexpr unsigned at_once = std::is_same_v<T, bf16> ? 16 : 8;  // registers do not suffice for more
  const bool within = column < C;
  std::uint16_t* const rows = block.found[threadIdx.x / warp];
  cuda::Pack<float, width> sum;
  if (within) sum = cuda::load<width>(sums + column);
  for (std::uint32_t left = block.groups_with_bits[key]; left != 0; left &= left - 1) {
    const auto index = static_cast<unsigned>(__ffs(static_cast<int>(left)) - 1);
    const unsigned count = list_rows(&block.bits[key * words + index * warp], rows);
    if (!within) continue;
    const T* const gradients = dx + static_cast<std::size_t>(index) * group * C + column;
    unsigned i = 0;
    for (; i + at_once <= count; i += at_once) add_rows<at_once>(gradients, C, rows + i, sum);
    for (; i + 4 <= count; i += 4) add_rows<4>(gradients, C, rows + i, sum);
    for (; i < count; ++i) add_rows<1>(gradients, C, rows + i, sum);
  }
  if (within) cuda::store(sum, sums + column);
}

template <unsigned width, typename T>
__global__ void __launch_bounds__(threads, 2)
    add_tokens(unsigned rows, std::size_t C, const std::int32_t* tokens, const T* dx, float* table) {
  extern __shared__ __align__(16) std::byte memory[];
  Block& block = *reinterpret_cast<Block*>(memory);
  const unsigned first = blockIdx.x * keys;
  for (unsigned i = threadIdx.x; i < slots; i += threads) block.token_at[i] = no_token;
  __syncthreads();
  if (threadIdx.x < warp) choose_keys(tokens, first, rows, block);
  const auto tiles = static_cast<unsigned>((C + warp * width - 1) / (warp * width));
  for (unsigned begin = 0; begin < rows; begin += chunk) {
    const unsigned end = min(begin + chunk, rows);
    for (unsigned i = threadIdx.x; i < keys * words; i += threads) block.bits[i] = 0;
    if (threadIdx.x < keys) block.groups_with_bits[threadIdx.x] = 0;
    __syncthreads();
#pragma unroll 8
    for (unsigned row = begin + threadIdx.x; row < end; row += threads) note(tokens[row], row, begin, first, block);
    __syncthreads();
    if (block.owned == 0) return;
    for (unsigned item = threadIdx.x / warp; item < keys * tiles; item += warps) {
      const unsigned key = item / tiles;
      if ((block.owned >> key & 1U) == 0 || block.groups_with_bits[key] == 0) continue;
      const std::size_t column = (item % tiles * warp + threadIdx.x % warp) * width;
      float* const sums = table + static_cast<std::size_t>(tokens[first + key]) * C;
      add_key<width>(dx + begin * C, C, column, key, sums, block);
    }
    __syncthreads();
  }
}

template <unsigned width, typename T>
void launch_tokens(unsigned rows, std::size_t C, const std::int32_t* tokens, const T* dx, float* table) {
  portable::detail::check("embedding_backward",
                          cudaFuncSetAttribute(add_tokens<width, T>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                               static_cast<int>(sizeof(Block))));
  add_tokens<width>
      <<<(rows + keys - 1) / keys, threads, sizeof(Block), portable::detail::stream()>>>(rows, C, tokens, dx, table);
}

/// position[t, :] = the sum of dx[b, t, :] over b, in order. A thread has `width` columns of a position.
template <unsigned width, typename T>
__global__ void add_samples(std::size_t samples, std::size_t stride, const T* dx, float* position) {
  const std::size_t i = (static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x) * width;
  if (i >= stride) return;
  cuda::Pack<float, width> sum;
  const auto first = cuda::load<width>(dx + i);
#pragma unroll
  for (unsigned c = 0; c < width; ++c) sum.at[c] = static_cast<float>(first.at[c]);
#pragma unroll 8
  for (std::size_t b = 1; b < samples; ++b) {
    const auto next = cuda::load<width>(dx + b * stride + i);
#pragma unroll
    for (unsigned c = 0; c < width; ++c) sum.at[c] += static_cast<float>(next.at[c]);
  }
  cuda::store(sum, position + i);
}

template <unsigned width, typename T>
void launch(const EmbeddingShape& shape, const std::int32_t* tokens, const T* dx, const EmbeddingGradients& gradients) {
  const device::Timed timed("embedding_backward");
  if (gradients.position != nullptr) {
    const std::size_t stride = shape.T * shape.C;
    constexpr unsigned size = 128;
    add_samples<width><<<static_cast<unsigned>((stride / width + size - 1) / size), size, 0, portable::detail::stream()>>>(
        shape.B, stride, dx, gradients.position);
  }
  launch_tokens<width>(static_cast<unsigned>(shape.B * shape.T), shape.C, tokens, dx, gradients.token);
}

}  // namespace

template <typename T>
void embedding_backward(const EmbeddingShape& shape, const std::int32_t* tokens, const T* dx,
                        const EmbeddingGradients& gradients) {
  constexpr const char* label = "embedding_backward";
  if (shape.B * shape.T * shape.C == 0) return;
  portable::require_countable(label, shape.B * shape.T);
  constexpr unsigned width = 4;
  const bool wide = shape.C % width == 0 && cuda::aligned<width>(dx) && cuda::aligned<width>(gradients.token) &&
                    cuda::aligned<width>(gradients.position);
  if (wide) {
    launch<width>(shape, tokens, dx, gradients);
  } else {
    launch<1>(shape, tokens, dx, gradients);
  }
  portable::detail::launched(label);
}

SHOAL_FOR_TYPES(embedding_backward);

}  // namespace shoal::kernels
