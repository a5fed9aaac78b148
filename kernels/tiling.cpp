// SPDX-License-Identifier: Apache-2.0
#include "tiling.hpp"

#include "amx.hpp"

namespace shoal::kernels {

namespace {

/// The size of equal pieces of about `wanted`, in whole multiples of `step` (registers and cache lines), at least `least`.
std::size_t piece(std::size_t whole, std::size_t wanted, std::size_t step, std::size_t least) {
  const std::size_t pieces = parts(whole, std::max<std::size_t>(1, wanted));
  return std::min(whole, std::max(least, round_up(parts(whole, pieces), step)));
}

std::size_t flops_per_call(DType type) { return type == DType::f32 ? 2'600'000'000 : 5'200'000'000; }

/// Cuts what is longer into a piece for each thread, and more where they would take too long.
Tiling tiling_of_blocked(const ProductShape& s, std::size_t threads) {
  constexpr std::size_t least = 192, step = 96;  // whole strips of both kernels
  Tiling t{s.m, s.n, flops_per_call(s.type)};
  const auto calls = [&] { return parts(2 * t.rows * t.columns * s.k, t.flops_per_call); };
  std::size_t &longer = s.m < s.n ? t.columns : t.rows, &shorter = s.m < s.n ? t.rows : t.columns;
  longer = piece(longer, parts(longer, std::max(threads, calls())), step, std::min(least, parts(longer, threads)));
  if (calls() > 1) shorter = piece(shorter, parts(shorter, calls()), step, least);
  return t;
}

/// The constants were found by timing oneDNN 2.6 on one Zen 5 core (1 MiB of L2) over the shapes of GPT models of width 384
/// and 768, forward, input gradients (B transposed) and weight gradients (A transposed), in fp32 and bf16.
Tiling tiling_of_library(const ProductShape& s) {
  const bool f32 = s.type == DType::f32;
  Tiling t{s.m, s.n, flops_per_call(s.type)};
  if (s.a == Transpose::yes) {
    // Weight gradients: the library turns a tile's columns of A over into its workspace, which should stay in L2.
    t.rows = piece(s.m, 400'000 / s.k, 64, 64);
  } else {
    // B is read once a tile: more rows where it does not fit into the caches.
    const std::size_t b_bytes = s.k * s.n * size_of(s.type);
    t.rows = piece(s.m, b_bytes > (4U << 20U) ? 512 : 256, 32, 32);
    // fp32 reads a plain B in place, and long columns of long rows miss the TLB. bf16 copies B, and a tile of a bf16 result
    // narrower than C costs a buffer.
    if (f32 && s.b == Transpose::no && b_bytes > (5U << 20U)) t.columns = piece(s.n, (5U << 18U) / s.k, 64, 384);
  }
  // Long products: narrower before lower, as B is copied or turned over once for all rows.
  const auto calls = [&] { return (2 * t.rows * t.columns * s.k + t.flops_per_call / 2) / t.flops_per_call; };
  if (calls() > 1) t.columns = piece(s.n, t.columns / calls(), 64, 192);
  if (calls() > 1) t.rows = piece(s.m, t.rows / calls(), 32, 32);
  return t;
}

}  // namespace

bool is_blocked(const ProductShape& s) {
  // On processors with tiles. Elsewhere (AMD's Zen 5) the library is at 95 % of the peak already. Strips are packed over
  // the whole sum, so that few of a very long one (over a vocabulary) would fit the caches.
  constexpr std::size_t least = 16, longest = 4096;
  return amx::available() && s.m >= least && s.n >= least && s.k >= least && s.k <= longest;
}

bool is_transposed(const ProductShape& s) {
  return is_blocked(s) && s.a == Transpose::yes && s.b == Transpose::no && s.result == DType::f32 && s.m > s.n;
}

Tiling tiling_of(const ProductShape& shape, std::size_t threads) {
  return is_blocked(shape) ? tiling_of_blocked(shape, threads) : tiling_of_library(shape);
}

}  // namespace shoal::kernels
