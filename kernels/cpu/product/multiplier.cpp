// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/product/multiplier.hpp"

#include "kernels/cpu/product/floats.hpp"
#include "kernels/cpu/product/pairs.hpp"
#include "kernels/cpu/vectors/amx.hpp"
#include "kernels/cpu/vectors/instructions.hpp"

namespace shoal::kernels {

Abilities abilities() {
  static const Abilities can{.floats = floats::available(),
                             .pairs = pairs::available(),
                             .tiles = amx::available(),
                             .bf16 = may_use(Instructions::bf16)};
  return can;
}

Multiplier multiplier_of(const ProductShape& s, const Abilities& can) {
  constexpr std::size_t least = 16;
  const bool is_large = s.m >= least && s.n >= least && s.k >= least;
  if (can.floats && (is_large || s.type != DType::f32)) return Multiplier::floats;
  // Without instructions for bf16 the library takes many times as long as for floats, or refuses.
  if (s.type == DType::f16 || (s.type == DType::bf16 && !can.bf16)) return Multiplier::widened;
  if (is_large && can.tiles && s.k <= longest_packed) return Multiplier::tiles;
  const bool fits_pairs = s.k <= longest_packed || pairs::reads_rows(s.a, s.k);
  if (is_large && can.pairs && s.type == DType::bf16 && fits_pairs) return Multiplier::pairs;
  return Multiplier::library;
}

bool takes(Multiplier multiplier, DType type) {
  switch (multiplier) {
    case Multiplier::floats: return true;
    case Multiplier::widened: return type != DType::f32;
    case Multiplier::library:
    case Multiplier::tiles: return type != DType::f16;
    case Multiplier::pairs: return type == DType::bf16;
  }
  return false;
}

}  // namespace shoal::kernels
