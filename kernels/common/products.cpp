// SPDX-License-Identifier: Apache-2.0
#include "shoal/kernels/products.hpp"

#include <algorithm>

#include "shoal/base/error.hpp"
#include "shoal/base/names.hpp"

namespace shoal::kernels {

std::string describe(const Product& product) {
  const MatmulShape& s = product.shape;
  const auto matrix = [](std::size_t rows, std::size_t columns, Transpose transposed, std::size_t stride) {
    const bool turned = transposed == Transpose::yes;
    const std::size_t own = turned ? rows : columns;
    return text('[', turned ? columns : rows, ", ", own, ']', turned ? "'" : "",
                stride == 0 || stride == own ? std::string() : text(" of stride ", stride));
  };
  return text(matrix(s.m, s.k, s.transpose_a, s.a_stride), " x ", matrix(s.k, s.n, s.transpose_b, s.b_stride),
              s.bias ? " + bias" : "", s.added ? " + matrix" : "",
              s.activation == Activation::none   ? ""
              : s.activation == Activation::gelu ? " with GELU"
                                                 : " with GELU's derivative",
              s.c_stride == 0 || s.c_stride == s.n ? std::string() : text(", result of stride ", s.c_stride), ", ",
              name_of(product.operands), product.operands == product.result ? "" : text(" to ", name_of(product.result)),
              product.aligned ? "" : text(", addresses not multiples of ", operand_alignment));
}

std::size_t workspace_bytes(const std::vector<Product>& products) {
  std::size_t most = 0;
  for (const Product& product : products) {
    const std::size_t bytes = dispatch(product.operands, [&]<typename T>(T) {
      return product.result == DType::f32 ? matmul_workspace_bytes<T, float>(product.shape)
                                          : matmul_workspace_bytes<T, T>(product.shape);
    });
    most = std::max(most, bytes);
  }
  return most;
}

}  // namespace shoal::kernels
