// SPDX-License-Identifier: Apache-2.0
// Times oneDNN's matrix products by themselves, each in one call: measures_products.py compares the products of a training
// step with them. One thread; operands are row-major, as in shoal, and stay in the caches that are large enough for them.
//
// usage: products_alone FILE
// A line of FILE: label m n k, A and B transposed (t) or not (n), the type of A and B, the type of C (fp32, bf16), and what
// is added: - (nothing), bias, c (the previous C) or bias,c. Prints for each line the label and the seconds of every call.
#include <omp.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <dnnl.hpp>
#include <exception>
#include <fstream>
#include <iostream>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

namespace {

using dnnl::memory;

constexpr double seconds_each = 0.25;
constexpr std::size_t least_calls = 12, calls_before = 2;

struct Problem {
  std::string label;
  memory::dim m = 0, n = 0, k = 0;
  std::string a, b, type, result, adds;
  bool adds_bias() const { return adds.find("bias") != std::string::npos; }
  bool adds_c() const { return adds == "c" || adds == "bias,c"; }
};

std::istream& operator>>(std::istream& in, Problem& problem) {
  return in >> problem.label >> problem.m >> problem.n >> problem.k >> problem.a >> problem.b >> problem.type >>
         problem.result >> problem.adds;
}

memory::data_type type_of(const std::string& name) {
  if (name != "fp32" && name != "bf16") throw std::runtime_error(name + ": no such type; allowed: fp32, bf16");
  return name == "fp32" ? memory::data_type::f32 : memory::data_type::bf16;
}

memory::desc stored(memory::dim rows, memory::dim columns, const std::string& type, bool transposed) {
  return {{rows, columns}, type_of(type), transposed ? memory::dims{1, rows} : memory::dims{columns, 1}};
}

/// Returns a matrix of ordinary numbers: with denormal or huge ones a product could take longer.
memory filled(const memory::desc& description, const dnnl::engine& engine) {
  memory result(description, engine);
  const std::size_t bytes = description.get_size();
  if (description.data_type() == memory::data_type::f32) {
    auto* const values = static_cast<float*>(result.get_data_handle());
    for (std::size_t i = 0; i < bytes / sizeof(float); ++i) values[i] = static_cast<float>(i % 61) / 61.0F - 0.5F;
  } else {
    auto* const values = static_cast<std::uint16_t*>(result.get_data_handle());
    for (std::size_t i = 0; i < bytes / sizeof(*values); ++i) values[i] = static_cast<std::uint16_t>(0x3f00U + i % 61);
  }
  return result;
}

std::vector<double> seconds_of_calls(const Problem& problem) {
  using Clock = std::chrono::steady_clock;
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  dnnl::stream stream(engine);
  dnnl::primitive_attr attributes;
  if (problem.adds_c()) {
    dnnl::post_ops add;
    add.append_sum(1.0F);
    attributes.set_post_ops(add);
  }
  const memory::desc a = stored(problem.m, problem.k, problem.type, problem.a == "t");
  const memory::desc b = stored(problem.k, problem.n, problem.type, problem.b == "t");
  const memory::desc c = stored(problem.m, problem.n, problem.result, false);
  const memory::desc bias = stored(1, problem.n, problem.type, false);
  const auto operation = problem.adds_bias() ? dnnl::matmul::desc(a, b, bias, c) : dnnl::matmul::desc(a, b, c);
  const dnnl::matmul product(dnnl::matmul::primitive_desc(operation, attributes, engine));
  std::unordered_map<int, memory> arguments{
      {DNNL_ARG_SRC, filled(a, engine)}, {DNNL_ARG_WEIGHTS, filled(b, engine)}, {DNNL_ARG_DST, filled(c, engine)}};
  if (problem.adds_bias()) arguments.emplace(DNNL_ARG_BIAS, filled(bias, engine));
  std::vector<double> seconds;
  double spent = 0;
  while (spent < seconds_each || seconds.size() < calls_before + least_calls) {
    const Clock::time_point begin = Clock::now();
    product.execute(stream, arguments);
    stream.wait();
    seconds.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
    spent += seconds.back();
  }
  seconds.erase(seconds.begin(), seconds.begin() + calls_before);
  return seconds;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: products_alone FILE\n", stderr);
    return 2;
  }
  omp_set_num_threads(1);
  std::ifstream file(argv[1]);
  if (!file) {
    std::fprintf(stderr, "products_alone: %s: cannot be read\n", argv[1]);
    return 2;
  }
  try {
    for (Problem problem; file >> problem;) {
      std::printf("%s", problem.label.c_str());
      for (const double seconds : seconds_of_calls(problem)) std::printf(" %.9f", seconds);
      std::printf("\n");
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "products_alone: %s\n", error.what());
    return 1;
  }
}
