// SPDX-License-Identifier: Apache-2.0
// Graphs of attention for cuDNN. The only file that includes its frontend, whose headers take long to compile.
#include <cuda_runtime_api.h>
#include <cudnn_frontend.h>

#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kernels/cuda/attention_graph.hpp"
#include "kernels/cuda/attention_library.hpp"
#include "shoal/base/error.hpp"
#include "shoal/device/queue.hpp"
#include "shoal/device/taken.hpp"
#include "shoal/device/timing.hpp"
#include "shoal/device/unit.hpp"

namespace shoal::kernels::cuda {

namespace {

namespace fe = cudnn_frontend;
using Tensor = std::shared_ptr<fe::graph::Tensor_attributes>;

void check(cudnnStatus_t status, const char* call) {
  require(status == CUDNN_STATUS_SUCCESS, "attention: ", call, ": ", cudnnGetErrorString(status), ", on GPU ",
          device::unit().index, " (", device::unit().name.data(), ")");
}

/// The process's only one; made when it is first asked for, and never destroyed.
cudnnHandle_t handle() {
  static const cudnnHandle_t made = [] {
    cudnnHandle_t fresh = nullptr;
    check(cudnnCreate(&fresh), "cudnnCreate");
    return fresh;
  }();
  return made;
}

std::string one_line(fe::error_t error) {
  std::string line = error.get_message();
  std::replace(line.begin(), line.end(), '\n', ' ');
  return line;
}

/// The numbers by which graphs know their tensors.
enum Number : std::int64_t { q = 1, k, v, out, logsumexp, dout, dq, dk, dv };

class CudnnGraph : public AttentionGraph {
 public:
  explicit CudnnGraph(const AttentionKey& key) : key_(key) {
    graph_.set_io_data_type(key.element == AttentionKey::Element::bf16 ? fe::DataType_t::BFLOAT16 : fe::DataType_t::HALF)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
    if (key.pass == AttentionKey::Pass::forward) {
      add_forward();
    } else {
      add_backward();
    }
  }

  /// Heuristics choose the kernel, without measuring, so that all runs take the same one.
  fe::error_t build() {
    fe::error_t error = graph_.build(handle(), {fe::HeurMode_t::A});
    if (error.is_bad()) return error;
    std::int64_t bytes = 0;
    error = graph_.get_workspace_size(bytes);
    workspace_bytes_ = static_cast<std::size_t>(bytes);
    return error;
  }

  std::size_t workspace_bytes() const override { return workspace_bytes_; }

  void run(const AttentionTensors& t, std::byte* workspace) override {
    std::unordered_map<std::int64_t, void*> at = {{q, const_cast<void*>(t.q)},
                                                  {k, const_cast<void*>(t.k)},
                                                  {v, const_cast<void*>(t.v)},
                                                  {out, t.out},
                                                  {logsumexp, t.logsumexp}};
    if (key_.pass == AttentionKey::Pass::backward) {
      at.insert({{dout, const_cast<void*>(t.dout)}, {dq, t.dq}, {dk, t.dk}, {dv, t.dv}});
    }
    check(cudnnSetStream(handle(), static_cast<cudaStream_t>(device::stream())), "cudnnSetStream");
    const device::Timed timed(key_.pass == AttentionKey::Pass::forward ? "attention" : "attention_backward");
    const fe::error_t error = graph_.execute(handle(), at, workspace);
    require(error.is_good(), "attention: cuDNN: ", one_line(error), ", on GPU ", device::unit().index, " (",
            device::unit().name.data(), ")");
  }

 private:
  std::vector<std::int64_t> sizes(std::size_t last) const {
    return {static_cast<std::int64_t>(key_.sequences), static_cast<std::int64_t>(key_.heads),
            static_cast<std::int64_t>(key_.positions), static_cast<std::int64_t>(last)};
  }
  /// Of a tensor whose rows have `row` elements.
  std::vector<std::int64_t> strides(std::size_t row) const {
    return {static_cast<std::int64_t>(key_.positions * row), static_cast<std::int64_t>(key_.head_size),
            static_cast<std::int64_t>(row), 1};
  }
  std::vector<std::int64_t> row_strides() const {
    const auto rows = static_cast<std::int64_t>(key_.positions);
    return {static_cast<std::int64_t>(key_.heads) * rows, rows, 1, 1};
  }

  Tensor input(const char* name, Number number, std::size_t row) {
    return graph_.tensor(fe::graph::Tensor_attributes()
                             .set_name(name)
                             .set_uid(number)
                             .set_dim(sizes(key_.head_size))
                             .set_stride(strides(row)));
  }
  void output(const Tensor& tensor, Number number, std::size_t row) const {
    tensor->set_output(true).set_uid(number).set_dim(sizes(key_.head_size)).set_stride(strides(row));
  }
  float scale() const { return 1.0F / std::sqrt(static_cast<float>(key_.head_size)); }

  void add_forward() {
    const std::size_t wide = 3 * key_.channels;
    auto [result, saved] = graph_.sdpa(input("q", q, wide), input("k", k, wide), input("v", v, wide),
                                       fe::graph::SDPA_attributes()
                                           .set_name("attention")
                                           .set_generate_stats(true)
                                           .set_attn_scale(scale())
                                           .set_diagonal_alignment(fe::DiagonalAlignment_t::TOP_LEFT)
                                           .set_diagonal_band_right_bound(0));
    output(result, out, key_.channels);
    saved->set_output(true)
        .set_uid(logsumexp)
        .set_data_type(fe::DataType_t::FLOAT)
        .set_dim(sizes(1))
        .set_stride(row_strides());
  }

  void add_backward() {
    const std::size_t wide = 3 * key_.channels;
    const Tensor saved = graph_.tensor(fe::graph::Tensor_attributes()
                                           .set_name("logsumexp")
                                           .set_uid(logsumexp)
                                           .set_data_type(fe::DataType_t::FLOAT)
                                           .set_dim(sizes(1))
                                           .set_stride(row_strides()));
    auto [to_q, to_k, to_v] =
        graph_.sdpa_backward(input("q", q, wide), input("k", k, wide), input("v", v, wide), input("out", out, key_.channels),
                             input("dout", dout, key_.channels), saved,
                             fe::graph::SDPA_backward_attributes()
                                 .set_name("attention_backward")
                                 .set_attn_scale(scale())
                                 .set_diagonal_alignment(fe::DiagonalAlignment_t::TOP_LEFT)
                                 .set_diagonal_band_right_bound(0)
                                 .set_deterministic_algorithm(true));
    output(to_q, dq, wide);
    output(to_k, dk, wide);
    output(to_v, dv, wide);
  }

  AttentionKey key_;
  fe::graph::Graph graph_;
  std::size_t workspace_bytes_ = 0;
};

}  // namespace

std::unique_ptr<AttentionGraph> make_attention_graph(const AttentionKey& key, std::string& why) {
  auto made = std::make_unique<CudnnGraph>(key);
  const fe::error_t error = made->build();
  if (error.is_good()) return made;
  why = one_line(error);
  return nullptr;
}

void start_attention() {
  device::measure_taken("cuDNN", [] { handle(); });
}

std::string attention_version() {
  const std::size_t version = cudnnGetVersion();
  return text(version / 10000, '.', version % 10000 / 100, '.', version % 100);
}

}  // namespace shoal::kernels::cuda
