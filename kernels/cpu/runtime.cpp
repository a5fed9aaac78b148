// SPDX-License-Identifier: Apache-2.0
#include "shoal/kernels/runtime.hpp"

#include <omp.h>
#include <dnnl.hpp>

#include <Kokkos_Core.hpp>
#include <limits>

#include "kernels/common/kokkos_version.hpp"
#include "kernels/common/processor.hpp"
#include "kernels/cpu/vectors/amx.hpp"
#include "kernels/cpu/vectors/instructions.hpp"
#include "shoal/base/alternate_stack.hpp"
#include "shoal/base/error.hpp"

namespace shoal::kernels {

namespace {

int thread_count = 1;

}  // namespace

void set_threads(int threads) {
  require(threads >= 1, "kernels: ", threads, " threads; at least 1 is needed");
  thread_count = threads;
}

// Kernels start teams of threads() threads themselves. Otherwise OpenMP has one thread, so that oneDNN prepares its products
// for one thread.
Runtime::Runtime(int threads) {
  set_threads(threads);
  omp_set_num_threads(threads);  // read by a Kokkos that has the OpenMP backend
  Kokkos::initialize();
  omp_set_num_threads(1);
  put_handlers_on_alternate_stacks();
}

Runtime::~Runtime() { Kokkos::finalize(); }

int threads() { return thread_count; }
int most_threads() { return std::numeric_limits<int>::max(); }

std::string device_name() { return text(processor_name(), ", ", instructions_built_for(), amx::available() ? ", AMX" : ""); }

std::vector<std::pair<std::string, std::string>> library_versions() {
  const dnnl_version_t& onednn = *dnnl_version();
  return {{"Kokkos", kokkos_version(KOKKOS_VERSION, Kokkos::DefaultHostExecutionSpace::name())},
          {"oneDNN", text(onednn.major, '.', onednn.minor, '.', onednn.patch, " (", instructions_used(), ")")},
          {"compiler", compiler_name()}};
}

}  // namespace shoal::kernels
