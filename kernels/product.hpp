// SPDX-License-Identifier: Apache-2.0
// One call of oneDNN: the product of one shape, prepared once and kept for the process' life. What it needs to be called by
// several threads at a time (arguments, streams) exists once a thread.
#pragma once

#include <cstddef>
#include <dnnl.hpp>
#include <unordered_map>
#include <vector>

#include "shoal/base/types.hpp"
#include "shoal/kernels/matmul.hpp"

namespace shoal::kernels {

/// Everything that oneDNN generates code for. Strides count elements between rows as stored.
struct ProductKey {
  std::size_t m, n, k;
  std::size_t a_stride, b_stride, c_stride;
  Transpose a, b;
  DType type, result;
  bool accumulate, bias;
  bool operator==(const ProductKey&) const = default;
};

class Product {
 public:
  explicit Product(const ProductKey& key);

  std::size_t workspace_bytes() const { return workspace_bytes_; }

  struct Operands {
    const void *a, *b, *bias;
    void* c;
    void* workspace;
  };
  /// Computed by the calling thread alone, which is number `thread` of its team.
  void operator()(const Operands& operands, int thread);

  /// Makes room for the arguments of so many threads; before a team calls.
  void prepare(int threads);

 private:
  struct Call {
    dnnl::stream stream;
    dnnl::memory a, b, bias, c, workspace;
    std::unordered_map<int, dnnl::memory> arguments;  // handles to those above
  };

  dnnl::matmul::primitive_desc description_;
  dnnl::matmul primitive_;
  std::size_t workspace_bytes_;
  bool bias_;
  std::vector<Call> calls_;
};

/// Made on first use. Not for use inside a team.
Product& product(const ProductKey& key);

}  // namespace shoal::kernels
