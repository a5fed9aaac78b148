// SPDX-License-Identifier: Apache-2.0
// Products by cuBLASLt. Its matrices are column-major, so its A is our B and the other way round, and its C' = B' A' is our
// C.
#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <cstring>

#include "kernels/cuda/handle.hpp"
#include "kernels/cuda/product_library.hpp"
#include "shoal/base/error.hpp"
#include "shoal/device/queue.hpp"
#include "shoal/device/unit.hpp"

namespace shoal::kernels::cuda {

namespace {

static_assert(sizeof(Algorithm) == sizeof(cublasLtMatmulAlgo_t));

constexpr const char* place = "matrix products";  // in errors of calls that prepare a product

cudaDataType_t type_of(DType type) {
  return type == DType::f32 ? CUDA_R_32F : type == DType::bf16 ? CUDA_R_16BF : CUDA_R_16F;
}

std::string words(const char* call, cublasStatus_t status) {
  return text(call, ": ", cublasLtGetStatusString(status), " (", cublasLtGetStatusName(status), ")");
}

/// cuBLASLt's auxiliary matrix of GELU is our u: the sums with the bias, before the GELU. It could also sum the columns of
/// GELU's derivative (BGRAD), but rounds these sums to the type of the result, and gradients of a bias are in float.
cublasLtEpilogue_t epilogue_of(Activation activation, bool bias) {
  if (activation == Activation::none) return bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
  if (activation == Activation::gelu) return bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
  require(!bias, place, ": a bias of GELU's derivative");
  return CUBLASLT_EPILOGUE_DGELU;
}

/// An address that has the alignment of the product's and no greater one. cuBLASLt looks at the bias's address when it
/// chooses, but reads it only when the product runs.
std::uintptr_t any_address(const Product& product) {
  constexpr std::uintptr_t base = 4096;
  return base + (product.aligned ? operand_alignment : size_of(product.operands));
}

/// The limits of the choice. Freed at the end of its scope.
class Preference {
 public:
  explicit Preference(std::uint32_t alignment) {
    check(cublasLtMatmulPreferenceCreate(&preference_), place, "cublasLtMatmulPreferenceCreate");
    set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace_bytes);
    // Parts of a sum may only be added by a kernel of their own, in float. In place, their order may depend on time.
    const std::uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, schemes);
    // By default cuBLASLt takes addresses for multiples of 256 bytes.
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment);
  }
  ~Preference() { cublasLtMatmulPreferenceDestroy(preference_); }
  Preference(const Preference&) = delete;
  Preference& operator=(const Preference&) = delete;
  cublasLtMatmulPreference_t get() const { return preference_; }

 private:
  template <typename Value>
  void set(cublasLtMatmulPreferenceAttributes_t which, const Value& value) {
    check(cublasLtMatmulPreferenceSetAttribute(preference_, which, &value, sizeof value), place,
          "cublasLtMatmulPreferenceSetAttribute");
  }
  cublasLtMatmulPreference_t preference_ = nullptr;
};

class CublasLtProduct : public LibraryProduct {
 public:
  CublasLtProduct(const Product& product, bool tf32)
      : shape_(product.shape),
        alignment_(static_cast<std::uint32_t>(product.aligned ? operand_alignment : size_of(product.operands))) {
    const bool b_transposed = shape_.transpose_b == Transpose::yes, a_transposed = shape_.transpose_a == Transpose::yes;
    const bool in_tf32 = tf32 && product.operands == DType::f32;
    check(cublasLtMatmulDescCreate(&product_, in_tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F),
          place, "cublasLtMatmulDescCreate");
    set(CUBLASLT_MATMUL_DESC_TRANSA, b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_TRANSB, a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    const bool bias = shape_.bias && product.operands == product.result;  // other biases are added behind the product
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(shape_.activation, bias));
    if (bias) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, any_address(product));
    if (shape_.activation != Activation::none) {
      set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, any_address(product));
      set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, static_cast<std::int64_t>(shape_.c_stride));
    }
    // The columns of a row-major matrix are the rows of the same memory as a column-major one.
    const cudaDataType_t operands = type_of(product.operands);
    b_ = b_transposed ? layout(operands, shape_.k, shape_.n, shape_.b_stride)
                      : layout(operands, shape_.n, shape_.k, shape_.b_stride);
    a_ = a_transposed ? layout(operands, shape_.m, shape_.k, shape_.a_stride)
                      : layout(operands, shape_.k, shape_.m, shape_.a_stride);
    c_ = layout(type_of(product.result), shape_.n, shape_.m, shape_.c_stride);
  }
  ~CublasLtProduct() override {
    for (const cublasLtMatrixLayout_t layout : {a_, b_, c_}) cublasLtMatrixLayoutDestroy(layout);
    cublasLtMatmulDescDestroy(product_);
  }

  std::string choose(Algorithm& algorithm) override {
    const Preference preference(alignment_);
    cublasLtMatmulHeuristicResult_t found{};
    int count = 0;
    const cublasStatus_t status =
        cublasLtMatmulAlgoGetHeuristic(handle(), product_, b_, a_, c_, c_, preference.get(), 1, &found, &count);
    if (status != CUBLAS_STATUS_SUCCESS) return words("cublasLtMatmulAlgoGetHeuristic", status);
    if (count == 0) return "its heuristics find none";
    if (found.state != CUBLAS_STATUS_SUCCESS) return words("cublasLtMatmulAlgoGetHeuristic", found.state);
    std::memcpy(algorithm.bytes.data(), &found.algo, sizeof found.algo);
    return {};
  }

  std::string problem(const Algorithm& algorithm) override {
    const cublasLtMatmulAlgo_t algo = of(algorithm);
    cublasLtMatmulHeuristicResult_t found{};
    const cublasStatus_t status = cublasLtMatmulAlgoCheck(handle(), product_, b_, a_, c_, c_, &algo, &found);
    if (status != CUBLAS_STATUS_SUCCESS) return words("cublasLtMatmulAlgoCheck", status);
    if (found.workspaceSize <= workspace_bytes) return {};
    return text("it needs ", found.workspaceSize, " bytes of workspace; ", workspace_bytes, " are planned");
  }

  /// C = A B + `added`, where `added` may be another matrix than C, with C's type and stride.
  void run(const char* label, const Algorithm& algorithm, const ProductOperands& operands, std::byte* workspace) override {
    if (operands.bias != nullptr) {
      check(
          cublasLtMatmulDescSetAttribute(product_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &operands.bias, sizeof operands.bias),
          label, "cublasLtMatmulDescSetAttribute");
    }
    if (operands.u != nullptr) {
      check(cublasLtMatmulDescSetAttribute(product_, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &operands.u,
                                           sizeof operands.u),
            label, "cublasLtMatmulDescSetAttribute");
    }
    const cublasLtMatmulAlgo_t algo = of(algorithm);
    const float one = 1.0F, beta = operands.added != nullptr ? 1.0F : 0.0F;
    const void* const added = operands.added != nullptr ? operands.added : operands.c;
    check(cublasLtMatmul(handle(), product_, &one, operands.b, b_, operands.a, a_, &beta, added, c_, operands.c, c_, &algo,
                         workspace, workspace_bytes, static_cast<cudaStream_t>(device::stream())),
          label, "cublasLtMatmul");
  }

 private:
  static cublasLtMatmulAlgo_t of(const Algorithm& algorithm) {
    cublasLtMatmulAlgo_t algo{};
    std::memcpy(&algo, algorithm.bytes.data(), sizeof algo);
    return algo;
  }
  static cublasLtMatrixLayout_t layout(cudaDataType_t type, std::size_t rows, std::size_t columns, std::size_t stride) {
    cublasLtMatrixLayout_t made = nullptr;
    check(cublasLtMatrixLayoutCreate(&made, type, rows, columns, static_cast<std::int64_t>(stride)), place,
          "cublasLtMatrixLayoutCreate");
    return made;
  }
  template <typename Value>
  void set(cublasLtMatmulDescAttributes_t which, const Value& value) {
    check(cublasLtMatmulDescSetAttribute(product_, which, &value, sizeof value), place, "cublasLtMatmulDescSetAttribute");
  }

  MatmulShape shape_;
  std::uint32_t alignment_;
  cublasLtMatmulDesc_t product_ = nullptr;
  cublasLtMatrixLayout_t a_ = nullptr, b_ = nullptr, c_ = nullptr;
};

}  // namespace

std::unique_ptr<LibraryProduct> make_product(const Product& product, bool tf32) {
  return std::make_unique<CublasLtProduct>(product, tf32);
}

std::string product_library() {
  const std::size_t version = cublasLtGetVersion();
  return text("cuBLASLt ", version / 10000, '.', version % 10000 / 100, '.', version % 100);
}

std::string product_device() { return text("GPU ", device::unit().index, " (", device::unit().name.data(), ")"); }

}  // namespace shoal::kernels::cuda
