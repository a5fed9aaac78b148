// SPDX-License-Identifier: Apache-2.0
// A product as cuBLASLt knows it: descriptors and an algorithm, made once for each shape and kept.
#pragma once

#include <cublasLt.h>

#include <compare>
#include <cstddef>

namespace shoal::kernels::cuda {

/// Everything that the choice of an algorithm depends on. In cuBLASLt's order: its matrices are column-major, so A is our B
/// and the other way round, and its C' = B' A' is our C.
struct ProductKey {
  cudaDataType_t operands = CUDA_R_32F, result = CUDA_R_32F;
  std::size_t m = 0, n = 0, k = 0;  ///< of the column-major product
  bool transpose_a = false, transpose_b = false;
  std::size_t a_stride = 0, b_stride = 0, c_stride = 0;
  bool bias = false, added = false;
  std::size_t alignment = 16;  ///< of all addresses, in bytes
  auto operator<=>(const ProductKey&) const = default;
};

struct ProductPlan {
  cublasLtMatmulDesc_t product = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, c = nullptr;
  cublasLtMatmulAlgo_t algorithm{};
};

/// Bytes of workspace that algorithms may use; its address is a multiple of workspace_alignment.
inline constexpr std::size_t workspace_bytes = std::size_t{32} << 20U, workspace_alignment = 256;

/// The plan of this shape. The heuristics of cuBLASLt choose the algorithm, without measuring, so that all ranks on equal
/// GPUs and all runs take the same one. It adds terms in a fixed order.
ProductPlan& plan_of(const char* label, const ProductKey& key);

}  // namespace shoal::kernels::cuda
