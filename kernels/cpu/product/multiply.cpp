// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/product/multiply.hpp"

#include <omp.h>

#include <algorithm>
#include <array>
#include <optional>

#include "kernels/cpu/product/product.hpp"
#include "kernels/cpu/product/tiling.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/mpi_free.hpp"
#include "shoal/base/pump.hpp"
#include "shoal/kernels/runtime.hpp"

namespace shoal::kernels {

namespace {

constexpr std::size_t cache_line = 64;

/// A product cut into tiles of C. At most four different Products compute them: one for inner tiles, and one each for the
/// lower edge, the right edge and the corner, where tiles may be smaller.
class TiledProduct {
 public:
  TiledProduct(const ProductShape& shape, const ProductKey& whole)
      : shape_(shape), tiling_(tiling_of(shape, static_cast<std::size_t>(threads()))) {
    for (const bool low : {false, true}) {
      for (const bool right : {false, true}) {
        ProductKey key = whole;
        key.m = low ? shape.m - (tiling_.down(shape) - 1) * tiling_.rows : tiling_.rows;
        key.n = right ? shape.n - (tiling_.across(shape) - 1) * tiling_.columns : tiling_.columns;
        Product& call = product(key);
        call.prepare(threads());
        calls_[low ? 1 : 0][right ? 1 : 0] = &call;
        workspace_per_thread_ = std::max(workspace_per_thread_, round_up(call.workspace_bytes(), cache_line));
      }
    }
  }

  std::size_t workspace_bytes() const { return workspace_per_thread_ * static_cast<std::size_t>(threads()); }
  std::size_t tiles() const { return tiling_.down(shape_) * tiling_.across(shape_); }
  std::size_t per_launch() const { return tiling_.per_launch(shape_, static_cast<std::size_t>(threads())); }

  template <typename T, typename R>
  void compute(std::size_t tile, int thread, const MatmulInputs<T, R>& in, const Matrix<R>& c,
               Span<std::byte> workspace) const {
    const std::size_t down = tile / tiling_.across(shape_), across = tile % tiling_.across(shape_);
    const std::size_t row = down * tiling_.rows, column = across * tiling_.columns;
    Product& call = *calls_[down + 1 == tiling_.down(shape_) ? 1 : 0][across + 1 == tiling_.across(shape_) ? 1 : 0];
    call({.a = in.a.data + (shape_.a == Transpose::yes ? row : row * in.a.stride),
          .b = in.b.data + (shape_.b == Transpose::yes ? column * in.b.stride : column),
          .bias = in.bias == nullptr ? nullptr : in.bias + column,
          .added = in.added == nullptr ? nullptr : in.added + row * c.stride + column,
          .c = c.data + row * c.stride + column,
          .workspace = workspace.subspan(static_cast<std::size_t>(thread) * workspace_per_thread_, workspace_per_thread_)},
         thread);
  }

 private:
  ProductShape shape_;
  Tiling tiling_;
  std::array<std::array<Product*, 2>, 2> calls_{};
  std::size_t workspace_per_thread_ = 0;
};

template <typename T, typename R>
TiledProduct tiled(const MatmulShape& s) {
  const ProductShape shape = product_shape<T, R>(s);
  return {shape,
          {.by = multiplier_of(shape),
           .transposed = !s.bias && is_transposed(shape),
           .m = s.m,
           .n = s.n,
           .k = s.k,
           .a_stride = s.a_stride,
           .b_stride = s.b_stride,
           .c_stride = s.c_stride,
           .a = s.transpose_a,
           .b = s.transpose_b,
           .type = dtype_of<T>,
           .result = dtype_of<R>,
           .accumulate = s.added,
           .bias = s.bias}};
}

}  // namespace

template <typename T, typename R>
void multiply(const char* label, const MatmulInputs<T, R>& in, Matrix<R> c, Span<std::byte> workspace) {
  const MatmulShape shape = shape_of(in, c);
  const TiledProduct product = tiled<T, R>(shape);
  require_workspace(label, shape, product.workspace_bytes(), workspace);
  const std::size_t tiles = product.tiles(), step = product.per_launch();
  for (std::size_t first = 0; first < tiles; first += step) {
    const std::size_t end = std::min(tiles, first + step);
    std::optional<MpiFree> mpi_free(std::in_place);
    if (threads() == 1 || end - first == 1) {
      for (std::size_t tile = first; tile < end; ++tile) product.compute(tile, 0, in, c, workspace);
    } else {
#pragma omp parallel for schedule(static) num_threads(threads())
      for (std::size_t tile = first; tile < end; ++tile) product.compute(tile, omp_get_thread_num(), in, c, workspace);
    }
    mpi_free.reset();
    pump();
  }
}

template <typename T, typename R>
std::size_t multiply_workspace_bytes(const MatmulShape& shape) {
  return tiled<T, R>(shape).workspace_bytes();
}

void require_workspace(const char* label, const MatmulShape& shape, std::size_t bytes, Span<std::byte> workspace) {
  require(bytes <= workspace.size(), label, ": the product of [", shape.m, ", ", shape.k, "] and [", shape.k, ", ", shape.n,
          "] wants ", bytes, " bytes of workspace; ", workspace.size(), " were planned");
}

#define SHOAL_INSTANCE(T, R)                                                                        \
  template void multiply<T, R>(const char*, const MatmulInputs<T, R>&, Matrix<R>, Span<std::byte>); \
  template std::size_t multiply_workspace_bytes<T, R>(const MatmulShape&);
SHOAL_INSTANCE(float, float)
SHOAL_INSTANCE(bf16, bf16)
SHOAL_INSTANCE(bf16, float)
SHOAL_INSTANCE(f16, f16)
SHOAL_INSTANCE(f16, float)
#undef SHOAL_INSTANCE

}  // namespace shoal::kernels
