// SPDX-License-Identifier: Apache-2.0
// Reads any bytes as the header of a safetensors file. It must be refused in one line, or its entries must cover the data
// exactly. The first two bytes are the number of bytes of data; the seeds begin with two blanks: 8224 bytes.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "shoal/base/error.hpp"
#include "shoal/io/safetensors.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::uint64_t data_bytes = data[0] + 256U * data[1];
  const std::string_view json(reinterpret_cast<const char*>(data) + 2, size - 2);
  try {
    std::uint64_t covered = 0;
    for (const auto& [name, entry] : shoal::io::parse_safetensors_header(json, data_bytes, "fuzz.safetensors")) {
      if (entry.begin > entry.end || entry.end > data_bytes || entry.elements() > data_bytes) std::abort();
      covered += entry.end - entry.begin;
    }
    if (covered != data_bytes) std::abort();
  } catch (const shoal::Error& error) {
    const std::string_view what = error.what();
    if (!what.starts_with("fuzz.safetensors: ") || what.find('\n') != std::string_view::npos) std::abort();
  }
  return 0;
}
