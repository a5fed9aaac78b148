// SPDX-License-Identifier: Apache-2.0
#include "shoal/kernels/runtime.hpp"

#include <limits>
#include <type_traits>

#include "kernels/common/kokkos_version.hpp"
#include "kernels/common/processor.hpp"
#include "kernels/portable/launch.hpp"
#include "shoal/base/error.hpp"

namespace shoal::kernels {

using portable::Space;

namespace {

#ifdef KOKKOS_ENABLE_SERIAL
constexpr bool has_threads = portable::on_host && !std::is_same_v<Space, Kokkos::Serial>;
#else
constexpr bool has_threads = portable::on_host;
#endif

}  // namespace

// Kokkos fixes its number of threads when it starts.
Runtime::Runtime(int threads) {
  set_threads(threads);
  std::string program = "shoal",
              option = text(KOKKOS_VERSION < 30700 ? "--kokkos-threads=" : "--kokkos-num-threads=", threads);
  std::vector<char*> words = {program.data(), option.data(), nullptr};
  int count = 2;
  Kokkos::initialize(count, words.data());
}

Runtime::~Runtime() { Kokkos::finalize(); }

void set_threads(int threads) { require(threads >= 1, "kernels: ", threads, " threads; at least 1 is needed"); }

int threads() { return portable::on_host ? Space().concurrency() : 1; }
int most_threads() { return has_threads ? std::numeric_limits<int>::max() : 1; }

std::string device_name() { return text(processor_name(), ", ", instructions_built_for(), ", portable kernels"); }

std::vector<std::pair<std::string, std::string>> library_versions() {
  return {{"Kokkos", kokkos_version(KOKKOS_VERSION, Space::name())}, {"compiler", compiler_name()}};
}

}  // namespace shoal::kernels
