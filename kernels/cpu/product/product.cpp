// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/product/product.hpp"

#include <cstdint>
#include <unordered_map>

#include "shoal/base/error.hpp"
#include "shoal/base/names.hpp"

namespace shoal::kernels {

namespace {

struct Hash {
  std::size_t operator()(const ProductKey& key) const {
    const auto flags = (key.a == Transpose::yes ? 1U : 0U) | (key.b == Transpose::yes ? 2U : 0U) |
                       (key.accumulate ? 4U : 0U) | (key.bias ? 8U : 0U) | (key.transposed ? 16U : 0U) |
                       static_cast<unsigned>(key.type) << 8U | static_cast<unsigned>(key.result) << 16U |
                       static_cast<unsigned>(key.by) << 24U;
    std::uint64_t hash = flags;
    for (const std::size_t part : {key.m, key.n, key.k, key.a_stride, key.b_stride, key.c_stride}) {
      hash = (hash ^ part) * 0x9e3779b97f4a7c15U;  // 2^64 / golden ratio
      hash ^= hash >> 29U;
    }
    return hash;
  }
};

std::unique_ptr<Product> make(const ProductKey& key) {
  require(takes(key.by, key.type), "matmul: the kernel that was chosen does not multiply ", name_of(key.type), " matrices");
  switch (key.by) {
    case Multiplier::library: return make_library_product(key);
    case Multiplier::floats: return make_blocked_floats(key);
    case Multiplier::pairs: return make_blocked_pairs(key);
    case Multiplier::tiles: return key.type == DType::f32 ? make_blocked_fp32(key) : make_blocked_bf16(key);
    case Multiplier::widened: break;
  }
  fail("matmul: panels that are widened are products of floats");
}

}  // namespace

Product& product(const ProductKey& key) {
  static std::unordered_map<ProductKey, std::unique_ptr<Product>, Hash> products;
  const auto found = products.find(key);
  return found != products.end() ? *found->second : *products.emplace(key, make(key)).first->second;
}

}  // namespace shoal::kernels
