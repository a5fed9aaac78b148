// SPDX-License-Identifier: Apache-2.0
#include "product.hpp"

#include <cstdint>
#include <unordered_map>

#include "amx.hpp"
#include "floats.hpp"

namespace shoal::kernels {

namespace {

struct Hash {
  std::size_t operator()(const ProductKey& key) const {
    const auto flags = (key.a == Transpose::yes ? 1U : 0U) | (key.b == Transpose::yes ? 2U : 0U) |
                       (key.type == DType::bf16 ? 4U : 0U) | (key.result == DType::bf16 ? 8U : 0U) |
                       (key.accumulate ? 16U : 0U) | (key.bias ? 32U : 0U) | (key.blocked ? 64U : 0U) |
                       (key.transposed ? 128U : 0U);
    std::uint64_t hash = flags;
    for (const std::size_t part : {key.m, key.n, key.k, key.a_stride, key.b_stride, key.c_stride}) {
      hash = (hash ^ part) * 0x9e3779b97f4a7c15U;  // 2^64 / golden ratio
      hash ^= hash >> 29U;
    }
    return hash;
  }
};

std::unique_ptr<Product> make(const ProductKey& key) {
  if (!key.blocked) return make_library_product(key);
  if (floats::available()) return make_blocked_floats(key);
  if (key.type == DType::f32) return make_blocked_fp32(key);
  return amx::available() ? make_blocked_bf16(key) : make_blocked_pairs(key);
}

}  // namespace

Product& product(const ProductKey& key) {
  static std::unordered_map<ProductKey, std::unique_ptr<Product>, Hash> products;
  const auto found = products.find(key);
  return found != products.end() ? *found->second : *products.emplace(key, make(key)).first->second;
}

}  // namespace shoal::kernels
