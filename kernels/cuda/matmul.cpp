// SPDX-License-Identifier: Apache-2.0
// Matrix products by cuBLASLt, summed in float; fp32 without TF32. Bias and `added` are added before the result is rounded.
#include "shoal/kernels/matmul.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "add_bias.hpp"
#include "handle.hpp"
#include "product_plan.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/pump.hpp"
#include "shoal/device/queue.hpp"
#include "shoal/device/timing.hpp"

namespace shoal::kernels {

namespace {

template <typename T>
constexpr cudaDataType_t type_of = std::is_same_v<T, float>  ? CUDA_R_32F
                                   : std::is_same_v<T, bf16> ? CUDA_R_16BF
                                                             : CUDA_R_16F;

/// 16 if all addresses are multiples of 16 bytes, as those of tensors are; otherwise the size of an element, which depends
/// on the shape alone, too: a part of a matrix whose rows have odd lengths.
template <typename T, typename... Addresses>
std::size_t alignment_of(const Addresses*... addresses) {
  constexpr std::uintptr_t wanted = 16;
  const std::uintptr_t bits = (reinterpret_cast<std::uintptr_t>(addresses) | ...);
  return bits % wanted == 0 ? wanted : sizeof(T);
}

}  // namespace

template <typename T, typename R>
void matmul(const char* label, const MatmulInputs<T, R>& in, Matrix<R> c, Span<std::byte> workspace) {
  if (c.rows == 0 || c.columns == 0) return;
  const bool transposed_a = in.transpose_a == Transpose::yes, transposed_b = in.transpose_b == Transpose::yes;
  cuda::ProductKey key;
  key.operands = type_of<T>;
  key.result = type_of<R>;
  key.m = c.columns;
  key.n = c.rows;
  key.k = transposed_a ? in.a.rows : in.a.columns;
  require(key.k > 0, label, ": a product without terms");
  key.transpose_a = transposed_b;
  key.transpose_b = transposed_a;
  key.a_stride = in.b.stride;
  key.b_stride = in.a.stride;
  key.c_stride = c.stride;
  // cuBLASLt takes a bias of the result's type alone.
  constexpr bool fuses_bias = std::is_same_v<T, R>;
  key.bias = fuses_bias && in.bias != nullptr;
  key.added = in.added != nullptr;
  const R* const added = key.added ? in.added : c.data;
  key.alignment = alignment_of<T>(in.a.data, in.b.data, c.data, added, key.bias ? in.bias : nullptr);

  cuda::ProductPlan& plan = cuda::plan_of(label, key);
  if (key.bias) {
    cuda::check(cublasLtMatmulDescSetAttribute(plan.product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &in.bias, sizeof in.bias),
                label, "cublasLtMatmulDescSetAttribute");
  }
  const auto address = reinterpret_cast<std::uintptr_t>(workspace.data());
  const std::size_t skipped = round_up(address, cuda::workspace_alignment) - address;
  require(workspace.size() >= skipped + cuda::workspace_bytes, label, ": a workspace of ", workspace.size(), " bytes");
  const float one = 1.0F, beta = key.added ? 1.0F : 0.0F;
  device::Timed timed(label);
  cuda::check(cublasLtMatmul(cuda::handle(), plan.product, &one, in.b.data, plan.a, in.a.data, plan.b, &beta, added, plan.c,
                             c.data, plan.c, &plan.algorithm, workspace.data() + skipped, cuda::workspace_bytes,
                             static_cast<cudaStream_t>(device::stream())),
              label, "cublasLtMatmul");
  timed.end();
  if constexpr (!fuses_bias) {
    if (in.bias != nullptr) cuda::add_bias(label, in.bias, c);
  }
  pump();
}

template <typename T, typename R>
std::size_t matmul_workspace_bytes(const MatmulShape& /*shape*/) {
  return cuda::workspace_bytes + cuda::workspace_alignment;
}

}  // namespace shoal::kernels

#include "../instances/matmul.hpp"
