// SPDX-License-Identifier: Apache-2.0
// Matrix products by cuBLASLt, summed in float. Bias and `added` are added before the result is rounded.
#include "shoal/kernels/matmul.hpp"

#include <cstdint>
#include <type_traits>

#include "kernels/common/instances.hpp"
#include "kernels/common/product_depth.hpp"
#include "kernels/cuda/add_bias.hpp"
#include "kernels/cuda/product_choice.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/pump.hpp"
#include "shoal/device/timing.hpp"

namespace shoal::kernels {

namespace {

template <typename... Addresses>
bool aligned(const Addresses*... addresses) {
  return (reinterpret_cast<std::uintptr_t>(addresses) | ...) % operand_alignment == 0;
}

}  // namespace

template <typename T, typename R>
void matmul(const char* label, const MatmulInputs<T, R>& in, Matrix<R> c, Span<std::byte> workspace) {
  const std::size_t k = depth_of(label, in, c);
  if (c.rows == 0 || c.columns == 0) return;
  const bool plain = in.activation == Activation::none;
  require(plain == (in.u == nullptr) && (plain || (std::is_same_v<T, R> && in.added == nullptr)), label,
          ": an activation without its operand, or with another type or matrix");
  // cuBLASLt takes a bias of the result's type alone.
  constexpr bool fuses_bias = std::is_same_v<T, R>;
  const T* const fused_bias = fuses_bias ? in.bias : nullptr;
  Product key = product<T, R>({.m = c.rows,
                               .n = c.columns,
                               .k = k,
                               .transpose_a = in.transpose_a,
                               .transpose_b = in.transpose_b,
                               .bias = in.bias != nullptr,
                               .added = in.added != nullptr,
                               .activation = in.activation,
                               .a_stride = in.a.stride,
                               .b_stride = in.b.stride,
                               .c_stride = c.stride});
  key.aligned = aligned(in.a.data, in.b.data, c.data, in.added, fused_bias, in.u);
  cuda::ChosenProduct* const chosen = cuda::chosen_product(key);
  require(chosen != nullptr, label, ": no algorithm was chosen for ", describe(key),
          ": the list of the model's products (products.hpp) lacks it");
  const auto address = reinterpret_cast<std::uintptr_t>(workspace.data());
  const std::size_t skipped = round_up(address, cuda::workspace_alignment) - address;
  require(workspace.size() >= skipped + cuda::workspace_bytes, label, ": a workspace of ", workspace.size(), " bytes");
  device::Timed timed(label);
  chosen->product->run(label, chosen->algorithm,
                       {.a = in.a.data, .b = in.b.data, .bias = fused_bias, .added = in.added, .u = in.u, .c = c.data},
                       workspace.data() + skipped);
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

SHOAL_FOR_PRODUCT_TYPES(matmul);
SHOAL_FOR_PRODUCT_TYPES(matmul_workspace_bytes);

}  // namespace shoal::kernels
