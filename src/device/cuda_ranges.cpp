// SPDX-License-Identifier: Apache-2.0
// The regions of the trace as NVTX ranges, which Nsight Systems shows above the kernels that were launched in them. A call
// costs some nanoseconds if no profiler is attached.
#include <nvtx3/nvToolsExt.h>

#include "cuda_state.hpp"
#include "shoal/base/trace.hpp"

namespace shoal::device {

void cuda::show_regions() {
  trace::set_region_listener({[](const char* name) { nvtxRangePushA(name); }, [] { nvtxRangePop(); }});
}

}  // namespace shoal::device
