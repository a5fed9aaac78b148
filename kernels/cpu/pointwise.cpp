// SPDX-License-Identifier: Apache-2.0
#include "shoal/kernels/pointwise.hpp"

#include <algorithm>

#include "kernels/common/column_workspace.hpp"
#include "kernels/common/convert_rounds.hpp"
#include "kernels/common/instances.hpp"
#include "kernels/cpu/vectors/loops.hpp"
#include "kernels/cpu/vectors/row_groups.hpp"
#include "kernels/cpu/vectors/simd.hpp"
#include "kernels/rules/gelu.hpp"

namespace shoal::kernels {

using simd::Floats;
using simd::for_vectors;
using simd::load;
using simd::store;

template <typename T>
void gelu_forward(std::size_t n, const T* u, T* g) {
  for_elements("gelu_forward", n, [=](std::size_t begin, std::size_t count) {
    for_vectors(count, [=](std::size_t i, auto part) {
      const Floats v = load(u + begin + i, part);
      store(g + begin + i, v * rules::gelu_gate<T>(v).open, part);
    });
  });
}

template <typename T>
void gelu_backward(RowShape shape, const GeluBackwardInputs<T>& in, const GeluBackwardOutputs<T>& out,
                   Span<std::byte> workspace) {
  const std::size_t rows = shape.rows, C = shape.C;
  float* const partials = partial_sums_in(workspace, column_sum_workspace_bytes(shape), "gelu_backward", shape);
  parallel_for("gelu_backward", row_groups(rows), [=](std::size_t group) {
    float* const partial = partials + group * C;
    std::fill_n(partial, C, 0.0F);
    const Range range = rows_of_group(group, rows);
    for (std::size_t row = range.begin; row < range.end; ++row) {
      for_vectors(C, [=](std::size_t i, auto part) {
        const std::size_t at = row * C + i;
        const Floats v = load(in.u + at, part);
        const rules::Gate<Floats> gate = rules::gelu_gate<T>(v);
        const Floats value = v * gate.open;
        const Floats gradient = load(in.dg + at, part) * rules::gelu_slope(v, value, gate);
        store(out.g + at, value, part);
        store(out.du + at, gradient, part);
        store(partial + i, load(partial + i, part) + gradient, part);
      });
    }
  });
  join_row_groups("gelu_backward_bias", row_groups(rows), C, partials, C, out.dbias);
}

template <typename T>
void column_sum(RowShape shape, const T* x, float* sums, Span<std::byte> workspace) {
  const std::size_t rows = shape.rows, C = shape.C;
  float* const partials = partial_sums_in(workspace, column_sum_workspace_bytes(shape), "column_sum", shape);
  parallel_for("column_sum", row_groups(rows), [=](std::size_t group) {
    float* const partial = partials + group * C;
    std::fill_n(partial, C, 0.0F);
    const Range range = rows_of_group(group, rows);
    for (std::size_t row = range.begin; row < range.end; ++row) {
      for_vectors(C, [=](std::size_t i, auto part) {
        store(partial + i, load(partial + i, part) + load(x + row * C + i, part), part);
      });
    }
  });
  join_row_groups("column_sum_join", row_groups(rows), C, partials, C, sums);
}

template <typename T>
void add(std::size_t n, const T* from, T* into) {
  for_elements("add", n, [=](std::size_t begin, std::size_t count) {
    for_vectors(count, [from = from + begin, into = into + begin](std::size_t i, auto part) {
      store(into + i, load(into + i, part) + load(from + i, part), part);
    });
  });
}

template <typename From, typename To>
void convert(std::size_t n, const From* x, To* y) {
  // One thread converts a work item, in ascending order.
  convert_in_rounds(n, x, y, item_elements, [=](std::size_t first, std::size_t elements) {
    for_elements("convert", elements, [=](std::size_t begin, std::size_t count) {
      for_vectors(count, [x = x + first + begin, y = y + first + begin](std::size_t i, auto part) {
        store(y + i, load(x + i, part), part);
      });
    });
  });
}

template <typename T>
void relu_forward(std::size_t n, T* x) {
  for_elements("relu_forward", n, [=](std::size_t begin, std::size_t count) {
    for_vectors(count, [x = x + begin](std::size_t i, auto part) {
      const Floats v = load(x + i, part);
      store(x + i, simd::select(v < 0.0F, Floats{}, v), part);  // NaN stays
    });
  });
}

template <typename T>
void relu_backward(std::size_t n, const T* y, const T* dy, T* dx) {
  for_elements("relu_backward", n, [=](std::size_t begin, std::size_t count) {
    for_vectors(count, [=](std::size_t i, auto part) {
      const Floats gradient = load(dy + begin + i, part);
      store(dx + begin + i, simd::select(load(y + begin + i, part) > 0.0F, gradient, Floats{}), part);
    });
  });
}

SHOAL_FOR_TYPES(gelu_forward);
SHOAL_FOR_TYPES(gelu_backward);
SHOAL_FOR_TYPES(column_sum);
SHOAL_FOR_TYPES(add);
SHOAL_FOR_TYPES(relu_forward);
SHOAL_FOR_TYPES(relu_backward);
SHOAL_FOR_CONVERSIONS(convert);

}  // namespace shoal::kernels
