// SPDX-License-Identifier: Apache-2.0
// Matrix products by oneDNN. Each thread has its own arguments and stream, so that several threads can call a product at
// once.
#include <cstring>
#include <dnnl.hpp>
#include <unordered_map>
#include <vector>

#include "kernels/cpu/product/product.hpp"
#include "kernels/cpu/product/tiling.hpp"
#include "shoal/base/alternate_stack.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/names.hpp"

namespace shoal::kernels {

namespace {

using dnnl::memory;

const dnnl::engine& cpu() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

memory::data_type data_type(DType type) { return type == DType::f32 ? memory::data_type::f32 : memory::data_type::bf16; }

/// rows x columns elements, with `stride` elements between rows, or between columns if the matrix is stored transposed.
memory::desc view(std::size_t rows, std::size_t columns, DType type, std::size_t stride, Transpose transpose) {
  const auto dimension = [](std::size_t size) { return static_cast<memory::dim>(size); };
  const memory::dims strides =
      transpose == Transpose::yes ? memory::dims{1, dimension(stride)} : memory::dims{dimension(stride), 1};
  return {{dimension(rows), dimension(columns)}, data_type(type), strides};
}

/// Returns true if a transposed A is copied, so that its rows have the stride spread_stride(): tiling.hpp gives the reason.
/// It is not copied if the sum is so long that the copy of each thread would take more than 4 MiB.
bool copies_a(const ProductKey& key) {
  constexpr std::size_t most = std::size_t{1} << 20U;
  return key.type == DType::f32 && key.a == Transpose::yes && !is_spread(key.m, key.a_stride) &&
         key.k * spread_stride(key.m) <= most;
}

/// The width and the strides are in bytes.
void copy_rows(std::size_t rows, std::size_t width, const void* from, std::size_t from_stride, void* to,
               std::size_t to_stride) {
  const auto* row = static_cast<const std::byte*>(from);
  auto* into = static_cast<std::byte*>(to);
  for (std::size_t r = 0; r < rows; ++r, row += from_stride, into += to_stride) std::memcpy(into, row, width);
}

dnnl::matmul::primitive_desc describe(const ProductKey& key) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (key.accumulate) {
    dnnl::post_ops add;
    add.append_sum(1.0F);
    attributes.set_post_ops(add);
  }
  const memory::desc a = view(key.m, key.k, key.type, copies_a(key) ? spread_stride(key.m) : key.a_stride, key.a);
  const memory::desc b = view(key.k, key.n, key.type, key.b_stride, key.b);
  const memory::desc c = view(key.m, key.n, key.result, key.c_stride, Transpose::no);
  const memory::desc bias = view(1, key.n, key.type, key.n, Transpose::no);
  try {
    return {key.bias ? dnnl::matmul::desc(a, b, bias, c) : dnnl::matmul::desc(a, b, c), attributes, cpu()};
  } catch (const dnnl::error& error) {
    fail("oneDNN has no product of ", name_of(key.type), " matrices into ", name_of(key.result), " for this processor (",
         error.what(), ")");
  }
}

class LibraryProduct final : public Product {
 public:
  explicit LibraryProduct(const ProductKey& key)
      : description_(describe(key)),
        primitive_(description_),
        library_bytes_(round_up(description_.scratchpad_desc().get_size(), 64)),
        copy_bytes_(copies_a(key) ? key.k * spread_stride(key.m) * sizeof(float) : 0),
        key_(key) {}

  std::size_t workspace_bytes() const override { return library_bytes_ + copy_bytes_; }

  void prepare(int threads) override {
    while (calls_.size() < static_cast<std::size_t>(threads)) {
      Call call{dnnl::stream(cpu()),
                memory(description_.src_desc(), cpu(), nullptr),
                memory(description_.weights_desc(), cpu(), nullptr),
                memory(description_.bias_desc(), cpu(), nullptr),
                memory(description_.dst_desc(), cpu(), nullptr),
                memory(description_.scratchpad_desc(), cpu(), nullptr),
                {}};
      call.arguments = {
          {DNNL_ARG_SRC, call.a}, {DNNL_ARG_WEIGHTS, call.b}, {DNNL_ARG_DST, call.c}, {DNNL_ARG_SCRATCHPAD, call.workspace}};
      if (key_.bias) call.arguments.emplace(DNNL_ARG_BIAS, call.bias);
      calls_.push_back(std::move(call));
    }
  }

  void operator()(const Operands& operands, int thread) override {
    use_alternate_stack();  // [Note: borrowed stack pointers]
    // oneDNN adds the product only to what C holds.
    if (operands.added != operands.c && operands.added != nullptr) {
      const std::size_t element = size_of(key_.result), row = key_.c_stride * element;
      copy_rows(key_.m, key_.n * element, operands.added, row, operands.c, row);
    }
    const void* a = operands.a;
    if (copy_bytes_ > 0) {
      void* const copy = operands.workspace.data() + library_bytes_;
      copy_rows(key_.k, key_.m * sizeof(float), a, key_.a_stride * sizeof(float), copy,
                spread_stride(key_.m) * sizeof(float));
      a = copy;
    }
    Call& call = calls_[static_cast<std::size_t>(thread)];
    // The library only reads A, B and bias, but its handles are not const.
    call.a.set_data_handle(const_cast<void*>(a));
    call.b.set_data_handle(const_cast<void*>(operands.b));
    call.bias.set_data_handle(const_cast<void*>(operands.bias));
    call.c.set_data_handle(operands.c);
    call.workspace.set_data_handle(operands.workspace.data());
    primitive_.execute(call.stream, call.arguments);
  }

 private:
  struct Call {
    dnnl::stream stream;
    memory a, b, bias, c, workspace;
    std::unordered_map<int, memory> arguments;  // handles of the members above
  };

  dnnl::matmul::primitive_desc description_;
  dnnl::matmul primitive_;
  std::size_t library_bytes_, copy_bytes_;
  ProductKey key_;
  std::vector<Call> calls_;
};

}  // namespace

std::unique_ptr<Product> make_library_product(const ProductKey& key) { return std::make_unique<LibraryProduct>(key); }

}  // namespace shoal::kernels
