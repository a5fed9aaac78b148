// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/product/tiling.hpp"

namespace shoal::kernels {

namespace {

/// The size of equal parts of about `wanted`, rounded up to a multiple of `step` (registers and cache lines), at least
/// `least`.
std::size_t part_size(std::size_t whole, std::size_t wanted, std::size_t step, std::size_t least) {
  const std::size_t count = parts(whole, std::max<std::size_t>(1, wanted));
  return std::min(whole, std::max(least, round_up(parts(whole, count), step)));
}

/// What one core computes in about 10 ms.
std::size_t flops_per_call(DType type, const Abilities& can) {
  if (can.floats) return 1'000'000'000;
  return type == DType::f32 ? 2'600'000'000 : 5'200'000'000;
}

/// Cuts the longer dimension of C into a part for each thread, and into more parts if a part would take too long.
Tiling tiling_of_blocked(const ProductShape& s, std::size_t threads, const Abilities& can) {
  constexpr std::size_t least = 192;  // whole micro-panels of every micro-kernel
  constexpr std::size_t step = 96;    // and of all but that for pairs
  // Of long sums, blocked_floats.cpp packs all rows and columns of a tile over one KC: at most 4 MiB of each.
  constexpr std::size_t most_of_long_sums = 28 * step;
  Tiling t{s.m, s.n, flops_per_call(s.type, can)};
  const auto calls = [&] { return parts(2 * t.rows * t.columns * s.k, t.flops_per_call); };
  std::size_t &longer = s.m < s.n ? t.columns : t.rows, &shorter = s.m < s.n ? t.rows : t.columns;
  longer = part_size(longer, parts(longer, std::max(threads, calls())), step, std::min(least, parts(longer, threads)));
  if (can.floats && s.k > longest_packed) longer = std::min(longer, most_of_long_sums);
  if (calls() > 1) shorter = part_size(shorter, parts(shorter, calls()), step, can.floats ? step : least);
  return t;
}

/// The constants were found by timing oneDNN 2.6 on one Zen 5 core (1 MiB of L2) over the shapes of GPT models of width 384
/// and 768, forward, input gradients (B transposed) and weight gradients (A transposed), in fp32 and bf16.
Tiling tiling_of_library(const ProductShape& s, const Abilities& can) {
  const bool f32 = s.type == DType::f32;
  Tiling t{s.m, s.n, flops_per_call(s.type, can)};
  if (s.a == Transpose::yes) {
    // Weight gradients: the library transposes a tile's columns of A into its workspace, which should stay in the L2 cache.
    t.rows = part_size(s.m, 400'000 / s.k, 64, 64);
  } else {
    // B is read once for each tile: tiles have more rows if B does not fit the caches.
    const std::size_t b_bytes = s.k * s.n * size_of(s.type);
    t.rows = part_size(s.m, b_bytes > (4U << 20U) ? 512 : 256, 32, 32);
    // In fp32 the library reads a B that is not transposed in place: long columns of long rows miss the TLB, so tiles are
    // narrower. In bf16 it copies B, and a tile of a bf16 result that is narrower than C needs one more buffer.
    if (f32 && s.b == Transpose::no && b_bytes > (5U << 20U)) t.columns = part_size(s.n, (5U << 18U) / s.k, 64, 384);
  }
  // Long products: tiles get narrower before they get lower, since B is copied or transposed once for all rows.
  const auto calls = [&] { return (2 * t.rows * t.columns * s.k + t.flops_per_call / 2) / t.flops_per_call; };
  if (calls() > 1) t.columns = part_size(s.n, t.columns / calls(), 64, 192);
  if (calls() > 1) t.rows = part_size(s.m, t.rows / calls(), 32, 32);
  return t;
}

}  // namespace

bool is_transposed(const ProductShape& s) {
  return multiplier_of(s) == Multiplier::tiles && s.a == Transpose::yes && s.b == Transpose::no && s.result == DType::f32 &&
         s.m > s.n;
}

Tiling tiling_of(const ProductShape& shape, std::size_t threads, const Abilities& can) {
  return is_blocked(multiplier_of(shape, can)) ? tiling_of_blocked(shape, threads, can) : tiling_of_library(shape, can);
}

}  // namespace shoal::kernels
