// SPDX-License-Identifier: Apache-2.0
#include "multiply.hpp"

#include <omp.h>

#include <algorithm>
#include <optional>

#include "product.hpp"
#include "shoal/base/absence.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/pump.hpp"
#include "shoal/kernels/runtime.hpp"
#include "tiling.hpp"

namespace shoal::kernels {

namespace {

constexpr std::size_t cache_line = 64;

/// A product cut into tiles, with the at most four calls that they are: inner tiles, and those at the lower border,
/// the right border and the corner.
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
  void compute(std::size_t tile, int thread, Matrix<const T> a, Matrix<const T> b, Matrix<R> c, const T* bias,
               const R* added, Span<std::byte> workspace) const {
    const std::size_t down = tile / tiling_.across(shape_), across = tile % tiling_.across(shape_);
    const std::size_t row = down * tiling_.rows, column = across * tiling_.columns;
    Product& call = *calls_[down + 1 == tiling_.down(shape_) ? 1 : 0][across + 1 == tiling_.across(shape_) ? 1 : 0];
    call({.a = a.data + (shape_.a == Transpose::yes ? row : row * a.stride),
          .b = b.data + (shape_.b == Transpose::yes ? column * b.stride : column),
          .bias = bias == nullptr ? nullptr : bias + column,
          .added = added == nullptr ? nullptr : added + row * c.stride + column,
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
TiledProduct tiled(std::size_t m, std::size_t n, std::size_t k, std::array<std::size_t, 3> strides,
                   const MatmulOptions& options, bool bias) {
  const ProductShape shape{m, n, k, options.a, options.b, dtype_of<T>, dtype_of<R>};
  return {shape,
          {is_blocked(shape), !bias && is_transposed(shape), m, n, k, strides[0], strides[1], strides[2], options.a,
           options.b, dtype_of<T>, dtype_of<R>, options.accumulate, bias}};
}

}  // namespace

template <typename T, typename R>
void multiply(const char* label, Matrix<const T> a, Matrix<const T> b, Matrix<R> c, const MatmulOptions& options,
              const T* bias, const R* added, Span<std::byte> workspace) {
  const std::size_t k = options.a == Transpose::yes ? a.rows : a.columns;
  const TiledProduct product = tiled<T, R>(c.rows, c.columns, k, {a.stride, b.stride, c.stride}, options, bias != nullptr);
  require_workspace(label, c.rows, c.columns, k, product.workspace_bytes(), workspace);
  if (!options.accumulate) {
    added = nullptr;
  } else if (added == nullptr) {
    added = c.data;
  }
  const std::size_t tiles = product.tiles(), step = product.per_launch();
  for (std::size_t first = 0; first < tiles; first += step) {
    const std::size_t end = std::min(tiles, first + step);
    std::optional<Absence> absence(std::in_place);
    if (threads() == 1 || end - first == 1) {
      for (std::size_t tile = first; tile < end; ++tile) product.compute(tile, 0, a, b, c, bias, added, workspace);
    } else {
#pragma omp parallel for schedule(static) num_threads(threads())
      for (std::size_t tile = first; tile < end; ++tile) {
        product.compute(tile, omp_get_thread_num(), a, b, c, bias, added, workspace);
      }
    }
    absence.reset();
    pump();
  }
}

template <typename T, typename R>
std::size_t multiply_workspace_bytes(std::size_t m, std::size_t n, std::size_t k, std::array<std::size_t, 3> strides,
                                     const MatmulOptions& options, bool bias) {
  return tiled<T, R>(m, n, k, strides, options, bias).workspace_bytes();
}

void require_workspace(const char* label, std::size_t m, std::size_t n, std::size_t k, std::size_t bytes,
                       Span<std::byte> workspace) {
  require(bytes <= workspace.size(), label, ": the product of [", m, ", ", k, "] and [", k, ", ", n, "] wants ", bytes,
          " bytes of workspace; ", workspace.size(), " were planned");
}

#define SHOAL_INSTANCE(T, R)                                                                                             \
  template void multiply<T, R>(const char*, Matrix<const T>, Matrix<const T>, Matrix<R>, const MatmulOptions&, const T*, \
                               const R*, Span<std::byte>);                                                               \
  template std::size_t multiply_workspace_bytes<T, R>(std::size_t, std::size_t, std::size_t, std::array<std::size_t, 3>, \
                                                      const MatmulOptions&, bool);
SHOAL_INSTANCE(float, float)
SHOAL_INSTANCE(bf16, bf16)
SHOAL_INSTANCE(bf16, float)
#undef SHOAL_INSTANCE

}  // namespace shoal::kernels
