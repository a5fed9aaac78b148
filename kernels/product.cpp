// SPDX-License-Identifier: Apache-2.0
#include "product.hpp"

#include <cstdint>

#include "shoal/base/error.hpp"

namespace shoal::kernels {

namespace {

using dnnl::memory;

const dnnl::engine& cpu() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

memory::data_type data_type(DType type) { return type == DType::f32 ? memory::data_type::f32 : memory::data_type::bf16; }

/// rows x columns of what stands in memory with `stride` between rows, or between columns where it is transposed.
memory::desc view(std::size_t rows, std::size_t columns, DType type, std::size_t stride, Transpose transpose) {
  const auto dimension = [](std::size_t size) { return static_cast<memory::dim>(size); };
  const memory::dims strides =
      transpose == Transpose::yes ? memory::dims{1, dimension(stride)} : memory::dims{dimension(stride), 1};
  return {{dimension(rows), dimension(columns)}, data_type(type), strides};
}

dnnl::matmul::primitive_desc describe(const ProductKey& key) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (key.accumulate) {
    dnnl::post_ops add;
    add.append_sum(1.0F);
    attributes.set_post_ops(add);
  }
  const memory::desc a = view(key.m, key.k, key.type, key.a_stride, key.a);
  const memory::desc b = view(key.k, key.n, key.type, key.b_stride, key.b);
  const memory::desc c = view(key.m, key.n, key.result, key.c_stride, Transpose::no);
  const memory::desc bias = view(1, key.n, key.type, key.n, Transpose::no);
  try {
    return {key.bias ? dnnl::matmul::desc(a, b, bias, c) : dnnl::matmul::desc(a, b, c), attributes, cpu()};
  } catch (const dnnl::error& error) {
    fail("oneDNN has no product of ", name_of(key.type), " matrices into ", name_of(key.result), " for this processor (",
         error.what(), "); bf16 needs AVX-512");
  }
}

struct Hash {
  std::size_t operator()(const ProductKey& key) const {
    const auto flags = (key.a == Transpose::yes ? 1U : 0U) | (key.b == Transpose::yes ? 2U : 0U) |
                       (key.type == DType::bf16 ? 4U : 0U) | (key.result == DType::bf16 ? 8U : 0U) |
                       (key.accumulate ? 16U : 0U) | (key.bias ? 32U : 0U);
    std::uint64_t hash = flags;
    for (const std::size_t part : {key.m, key.n, key.k, key.a_stride, key.b_stride, key.c_stride}) {
      hash = (hash ^ part) * 0x9e3779b97f4a7c15U;  // 2^64 / golden ratio
      hash ^= hash >> 29U;
    }
    return hash;
  }
};

}  // namespace

Product::Product(const ProductKey& key)
    : description_(describe(key)),
      primitive_(description_),
      workspace_bytes_(description_.scratchpad_desc().get_size()),
      bias_(key.bias) {}

void Product::prepare(int threads) {
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
    if (bias_) call.arguments.emplace(DNNL_ARG_BIAS, call.bias);
    calls_.push_back(std::move(call));
  }
}

void Product::operator()(const Operands& operands, int thread) {
  Call& call = calls_[static_cast<std::size_t>(thread)];
  // The library reads A, B and bias only; its handles know no const.
  call.a.set_data_handle(const_cast<void*>(operands.a));
  call.b.set_data_handle(const_cast<void*>(operands.b));
  call.bias.set_data_handle(const_cast<void*>(operands.bias));
  call.c.set_data_handle(operands.c);
  call.workspace.set_data_handle(operands.workspace);
  primitive_.execute(call.stream, call.arguments);
}

Product& product(const ProductKey& key) {
  static std::unordered_map<ProductKey, Product, Hash> products;
  const auto found = products.find(key);
  return found != products.end() ? found->second : products.emplace(key, Product(key)).first->second;
}

}  // namespace shoal::kernels
