// SPDX-License-Identifier: Apache-2.0
// The peak of a GPU's matrix products: from data sheets, since a measurement would need memory, which is all planned.
#include "shoal/kernels/peak.hpp"

#include <array>
#include <string_view>

#include "shoal/device/unit.hpp"

namespace shoal::kernels {

namespace {

/// TFLOP/s of dense products, as the vendor states them. fp32 without TF32.
struct Sheet {
  std::string_view name;  ///< a part of the GPU's name; of several that match, the first one counts
  double half, single;    ///< of bf16 and fp16, which are equal; of fp32
};
constexpr std::array sheets = {Sheet{"H100 PCIe", 756, 51}, Sheet{"H100 NVL", 835, 60},  Sheet{"H100", 989.4, 66.9},
                               Sheet{"H200", 989.4, 66.9},  Sheet{"GH200", 989.4, 66.9}, Sheet{"A100", 312, 19.5}};

const Sheet* sheet_of(const device::Unit& gpu) {
  for (const Sheet& sheet : sheets) {
    if (std::string_view(gpu.name.data()).find(sheet.name) != std::string_view::npos) return &sheet;
  }
  return nullptr;
}

/// FLOP that a multiprocessor makes in a cycle: of the generations that kernels are compiled for, by CUDA's programming
/// guide and the vendor's white papers.
double flop_per_cycle(int capability, bool half) {
  if (!half) return capability == 80 ? 128 : 256;
  switch (capability) {
    case 80: return 2048;
    case 90: return 4096;
    case 100:
    case 103: return 8192;
    default: return 1024;
  }
}

}  // namespace

double measured_gflops(Arithmetic /*arithmetic*/) { return 0; }  // instructions of processors

double measured_peak_gflops(DType type) {
  const device::Unit& gpu = device::unit();
  const bool half = type != DType::f32;
  if (const Sheet* const sheet = sheet_of(gpu)) return 1e3 * (half ? sheet->half : sheet->single);
  return 1e-3 * flop_per_cycle(gpu.capability, half) * gpu.processors * gpu.mhz;
}

const char* origin_of_peak() {
  return sheet_of(device::unit()) != nullptr ? "by its data sheet" : "by its units and their highest clock";
}

}  // namespace shoal::kernels
