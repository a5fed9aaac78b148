// SPDX-License-Identifier: Apache-2.0
#include "product_plan.hpp"

#include <cstdint>
#include <map>

#include "handle.hpp"
#include "shoal/base/error.hpp"

namespace shoal::kernels::cuda {

namespace {

cublasLtMatrixLayout_t layout(const char* label, cudaDataType_t type, std::size_t rows, std::size_t columns,
                              std::size_t stride) {
  cublasLtMatrixLayout_t made = nullptr;
  check(cublasLtMatrixLayoutCreate(&made, type, rows, columns, static_cast<std::int64_t>(stride)), label,
        "cublasLtMatrixLayoutCreate");
  return made;
}

template <typename Value>
void set(const char* label, cublasLtMatmulDesc_t product, cublasLtMatmulDescAttributes_t which, const Value& value) {
  check(cublasLtMatmulDescSetAttribute(product, which, &value, sizeof value), label, "cublasLtMatmulDescSetAttribute");
}

/// How algorithms are chosen. Freed at the end of its scope.
class Preference {
 public:
  explicit Preference(const char* label) : label_(label) {
    check(cublasLtMatmulPreferenceCreate(&preference_), label, "cublasLtMatmulPreferenceCreate");
  }
  ~Preference() { cublasLtMatmulPreferenceDestroy(preference_); }
  Preference(const Preference&) = delete;
  Preference& operator=(const Preference&) = delete;

  template <typename Value>
  void set(cublasLtMatmulPreferenceAttributes_t which, const Value& value) {
    check(cublasLtMatmulPreferenceSetAttribute(preference_, which, &value, sizeof value), label_,
          "cublasLtMatmulPreferenceSetAttribute");
  }
  cublasLtMatmulPreference_t get() const { return preference_; }

 private:
  const char* label_;
  cublasLtMatmulPreference_t preference_ = nullptr;
};

cublasLtMatmulAlgo_t algorithm_of(const char* label, const ProductKey& key, const ProductPlan& plan) {
  Preference preference(label);
  preference.set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace_bytes);
  // Parts of a sum may only be added by a kernel of their own, in float. In place, their order may depend on time.
  const std::uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  preference.set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, schemes);
  // By default cuBLASLt takes addresses for multiples of 256 bytes.
  const auto alignment = static_cast<std::uint32_t>(key.alignment);
  preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment);
  preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment);
  preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment);
  preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment);
  cublasLtMatmulHeuristicResult_t found{};
  int count = 0;
  check(cublasLtMatmulAlgoGetHeuristic(handle(), plan.product, plan.a, plan.b, plan.c, plan.c, preference.get(), 1, &found,
                                       &count),
        label, "cublasLtMatmulAlgoGetHeuristic");
  require(count == 1, label, ": cuBLASLt has no algorithm for a product of ", key.n, " x ", key.k, " and ", key.k, " x ",
          key.m);
  check(found.state, label, "cublasLtMatmulAlgoGetHeuristic");
  return found.algo;
}

ProductPlan made(const char* label, const ProductKey& key) {
  ProductPlan plan;
  check(cublasLtMatmulDescCreate(&plan.product, CUBLAS_COMPUTE_32F, CUDA_R_32F), label, "cublasLtMatmulDescCreate");
  set(label, plan.product, CUBLASLT_MATMUL_DESC_TRANSA, key.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(label, plan.product, CUBLASLT_MATMUL_DESC_TRANSB, key.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
  if (key.bias) set(label, plan.product, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
  plan.a = key.transpose_a ? layout(label, key.operands, key.k, key.m, key.a_stride)
                           : layout(label, key.operands, key.m, key.k, key.a_stride);
  plan.b = key.transpose_b ? layout(label, key.operands, key.n, key.k, key.b_stride)
                           : layout(label, key.operands, key.k, key.n, key.b_stride);
  plan.c = layout(label, key.result, key.m, key.n, key.c_stride);
  plan.algorithm = algorithm_of(label, key, plan);
  return plan;
}

}  // namespace

ProductPlan& plan_of(const char* label, const ProductKey& key) {
  static std::map<ProductKey, ProductPlan> plans;
  const auto at = plans.find(key);
  return at != plans.end() ? at->second : plans.emplace(key, made(label, key)).first->second;
}

}  // namespace shoal::kernels::cuda
