// SPDX-License-Identifier: Apache-2.0
#include "shoal/kernels/matmul.hpp"

#include <omp.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <vector>

#include "product.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/pump.hpp"
#include "shoal/base/trace.hpp"
#include "shoal/kernels/runtime.hpp"
#include "tiling.hpp"

namespace shoal::kernels {

namespace {

constexpr std::size_t cache_line = 64;

Span<std::byte> workspace_given;

/// A product cut into tiles, with the at most four library calls that they are: inner tiles, and those at the lower border,
/// the right border and the corner.
class TiledProduct {
 public:
  TiledProduct(const ProductShape& shape, const ProductKey& whole) : shape_(shape), tiling_(tiling_of(shape)) {
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
  void compute(std::size_t tile, int thread, Matrix<const T> a, Matrix<const T> b, Matrix<R> c, const T* bias) const {
    const std::size_t down = tile / tiling_.across(shape_), across = tile % tiling_.across(shape_);
    const std::size_t row = down * tiling_.rows, column = across * tiling_.columns;
    Product& call = *calls_[down + 1 == tiling_.down(shape_) ? 1 : 0][across + 1 == tiling_.across(shape_) ? 1 : 0];
    call({.a = a.data + (shape_.a == Transpose::yes ? row : row * a.stride),
          .b = b.data + (shape_.b == Transpose::yes ? column * b.stride : column),
          .bias = bias == nullptr ? nullptr : bias + column,
          .c = c.data + row * c.stride + column,
          .workspace = workspace_given.data() + static_cast<std::size_t>(thread) * workspace_per_thread_},
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
          {m, n, k, strides[0], strides[1], strides[2], options.a, options.b, dtype_of<T>, dtype_of<R>, options.accumulate,
           bias}};
}

}  // namespace

template <typename T, typename R>
void matmul(const char* label, Matrix<const T> a, Matrix<const T> b, Matrix<R> c, const MatmulOptions& options,
            const T* bias) {
  const bool a_turned = options.a == Transpose::yes, b_turned = options.b == Transpose::yes;
  const std::size_t k = a_turned ? a.rows : a.columns;
  require((a_turned ? a.columns : a.rows) == c.rows && (b_turned ? b.rows : b.columns) == c.columns &&
              (b_turned ? b.columns : b.rows) == k && k > 0,
          label, ": a product of [", a.rows, ", ", a.columns, "]", a_turned ? "'" : "", " and [", b.rows, ", ", b.columns,
          "]", b_turned ? "'" : "", " into [", c.rows, ", ", c.columns, "]");
  if (c.rows == 0 || c.columns == 0) return;

  const trace::Region region(trace::Level::kernels, trace::Kind::kernel, label,
                             (a.rows * a.columns + b.rows * b.columns) * sizeof(T) + c.rows * c.columns * sizeof(R));
  const TiledProduct product = tiled<T, R>(c.rows, c.columns, k, {a.stride, b.stride, c.stride}, options, bias != nullptr);
  require(product.workspace_bytes() <= workspace_given.size(), label, ": the product of [", c.rows, ", ", k, "] and [", k,
          ", ", c.columns, "] wants ", product.workspace_bytes(), " bytes of workspace; ", workspace_given.size(),
          " were planned");

  const std::size_t tiles = product.tiles(), step = product.per_launch();
  for (std::size_t first = 0; first < tiles; first += step) {
    const std::size_t end = std::min(tiles, first + step);
    if (threads() == 1) {
      for (std::size_t tile = first; tile < end; ++tile) product.compute(tile, 0, a, b, c, bias);
    } else {
#pragma omp parallel for schedule(static) num_threads(threads())
      for (std::size_t tile = first; tile < end; ++tile) product.compute(tile, omp_get_thread_num(), a, b, c, bias);
    }
    pump();
  }
}

template <typename T, typename R>
std::size_t matmul_workspace_bytes(std::size_t m, std::size_t n, std::size_t k, const MatmulOptions& options, bool bias) {
  if (m == 0 || n == 0) return 0;
  const std::size_t a_stride = options.a == Transpose::yes ? m : k, b_stride = options.b == Transpose::yes ? k : n;
  return tiled<T, R>(m, n, k, {a_stride, b_stride, n}, options, bias).workspace_bytes();
}

void set_matmul_workspace(Span<std::byte> workspace) { workspace_given = workspace; }

template <typename T>
double measured_peak_gflops(std::size_t size, double seconds) {
  using Clock = std::chrono::steady_clock;
  std::vector<T> a(size * size, T(0.5F)), b(size * size, T(0.25F)), c(size * size);
  std::vector<std::byte> own(matmul_workspace_bytes<T, T>(size, size, size, {}, false));
  const Span<std::byte> others = workspace_given;
  set_matmul_workspace(own);
  const auto once = [&] {
    const Clock::time_point begin = Clock::now();
    matmul("measured_peak", Matrix<const T>(a.data(), size, size), Matrix<const T>(b.data(), size, size),
           Matrix<T>(c.data(), size, size));
    return std::chrono::duration<double>(Clock::now() - begin).count();
  };
  once();  // code generation, first touch
  double best = once();
  for (double spent = best; spent < seconds;) {
    const double time = once();
    best = std::min(best, time);
    spent += time;
  }
  set_matmul_workspace(others);
  const auto n = static_cast<double>(size);
  return 2e-9 * n * n * n / best;
}

#define SHOAL_INSTANCE(T, R)                                                                                            \
  template void matmul<T, R>(const char*, Matrix<const T>, Matrix<const T>, Matrix<R>, const MatmulOptions&, const T*); \
  template std::size_t matmul_workspace_bytes<T, R>(std::size_t, std::size_t, std::size_t, const MatmulOptions&, bool);
SHOAL_INSTANCE(float, float)
SHOAL_INSTANCE(bf16, bf16)
SHOAL_INSTANCE(bf16, float)
#undef SHOAL_INSTANCE
template double measured_peak_gflops<float>(std::size_t, double);
template double measured_peak_gflops<bf16>(std::size_t, double);

}  // namespace shoal::kernels
