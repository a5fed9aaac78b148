// SPDX-License-Identifier: Apache-2.0
// The choice of algorithms as bytes: the name and version of the library, filled with zeros, then an algorithm for each
// product in the order of the list.
#include "kernels/cuda/product_choice.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "shoal/base/counted.hpp"
#include "shoal/base/error.hpp"
#include "shoal/device/taken.hpp"

namespace shoal::kernels {

namespace cuda {

namespace {

constexpr std::size_t name_bytes = 64;

bool tf32 = false;

/// Never destroyed, since CUDA may end before static objects do.
std::map<Product, ChosenProduct>& table() {
  static auto* const chosen = new std::map<Product, ChosenProduct>;
  return *chosen;
}

void keep(const Product& key, std::unique_ptr<LibraryProduct> product, const Algorithm& algorithm) {
  table()[key] = ChosenProduct{std::move(product), algorithm};
}

/// algorithms: one for each product.
void keep_all(const std::vector<Product>& products, const std::byte* algorithms) {
  for (const Product& listed : products) {
    Algorithm algorithm;
    std::memcpy(algorithm.bytes.data(), algorithms, sizeof algorithm);
    algorithms += sizeof algorithm;
    const Product key = with_strides(listed);
    std::unique_ptr<LibraryProduct> product = make_product(key, tf32);
    const std::string why = product->problem(algorithm);
    require(why.empty(), "matrix products: rank 0's algorithm for ", describe(listed), " does not run on ", product_device(),
            ": ", why, "; all ranks need GPUs that run the same algorithms");
    keep(key, std::move(product), algorithm);
  }
}

std::pair<std::unique_ptr<LibraryProduct>, Algorithm> choose(const Product& key) {
  std::unique_ptr<LibraryProduct> product = make_product(key, tf32);
  Algorithm algorithm;
  const std::string why = product->choose(algorithm);
  require(why.empty(), "matrix products: ", product_library(), " has no algorithm for ", describe(key), " on ",
          product_device(), ": ", why);
  return {std::move(product), algorithm};
}

}  // namespace

Product with_strides(Product product) {
  MatmulShape& s = product.shape;
  if (s.a_stride == 0) s.a_stride = s.transpose_a == Transpose::yes ? s.m : s.k;
  if (s.b_stride == 0) s.b_stride = s.transpose_b == Transpose::yes ? s.k : s.n;
  if (s.c_stride == 0) s.c_stride = s.n;
  return product;
}

ChosenProduct* chosen_product(const Product& product) {
  const auto at = table().find(product);
  return at == table().end() ? nullptr : &at->second;
}

void forget_algorithms() { table().clear(); }

}  // namespace cuda

ProductFeatures product_features() { return {.tf32 = true, .gelu = true}; }
void set_tf32(bool on) { cuda::tf32 = on; }

std::vector<std::byte> choose_algorithms(const std::vector<Product>& products) {
  std::vector<std::byte> bytes(cuda::name_bytes);
  const std::string library = cuda::product_library();
  std::memcpy(bytes.data(), library.data(), std::min(library.size(), cuda::name_bytes - 1));
  device::measure_taken("cuBLASLt", [&] {
    for (const Product& product : products) {
      const cuda::Algorithm algorithm = cuda::choose(cuda::with_strides(product)).second;
      bytes.insert(bytes.end(), algorithm.bytes.begin(), algorithm.bytes.end());
    }
  });
  return bytes;
}

void use_algorithms(const std::vector<Product>& products, Span<const std::byte> chosen) {
  using cuda::Algorithm;
  require(chosen.size() == cuda::name_bytes + products.size() * sizeof(Algorithm), "matrix products: ", chosen.size(),
          " bytes of algorithms for ", counted(products.size(), "product"), ": the ranks' programs or options differ");
  const std::string own = cuda::product_library(), theirs = reinterpret_cast<const char*>(chosen.data());
  require(own == theirs, "matrix products: ", theirs, " has chosen the algorithms on rank 0, and this rank has ", own,
          ": all ranks need the same version, so that they compute the same bits");
  device::measure_taken("cuBLASLt", [&] { cuda::keep_all(products, chosen.data() + cuda::name_bytes); });
}

void choose_missing_algorithms(const std::vector<Product>& products) {
  for (const Product& product : products) {
    const Product key = cuda::with_strides(product);
    if (cuda::chosen_product(key) != nullptr) continue;
    auto [made, algorithm] = cuda::choose(key);
    cuda::keep(key, std::move(made), algorithm);
  }
}

}  // namespace shoal::kernels
