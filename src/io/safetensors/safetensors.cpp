// SPDX-License-Identifier: Apache-2.0
#include "shoal/io/safetensors.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <nlohmann/json.hpp>

#include "io/files/files.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/printable.hpp"
#include "shoal/device/memory.hpp"
#include "shoal/io/text_file.hpp"

namespace shoal::io {

namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t largest_header = 100'000'000;  // the limit of Hugging Face's own reader
constexpr std::size_t elements_at_once = std::size_t{1} << 18U;

/// IEEE half precision: 5 bits of exponent, 10 of mantissa.
float from_half(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000U) << 16U, exponent = (bits >> 10U) & 0x1fU, mantissa = bits & 0x3ffU;
  if (exponent == 0) {  // zero and subnormal numbers: mantissa x 2^-24, exact in float
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24F;
    return sign == 0 ? magnitude : -magnitude;
  }
  const std::uint32_t wide = exponent == 31 ? 0xffU : exponent + 112;
  return std::bit_cast<float>(sign | wide << 23U | mantissa << 13U);
}

template <typename Convert>
void read_converted(const File& file, std::uint64_t offset, Span<float> values, Convert convert) {
  std::vector<std::uint16_t> buffer(std::min(values.size(), elements_at_once));
  while (!values.empty()) {
    const auto part = Span<std::uint16_t>(buffer).first(std::min(values.size(), buffer.size()));
    file.read(offset, std::as_writable_bytes(part));
    std::transform(part.begin(), part.end(), values.begin(), convert);
    offset += part.size_bytes();
    values = values.subspan(part.size());
  }
}

/// Reads values.size() elements that begin at `offset` in the file, and converts them from `dtype`.
void read_values(const File& file, const std::string& dtype, std::uint64_t offset, Span<float> values) {
  if (dtype == "F32") {
    file.read(offset, std::as_writable_bytes(values));
  } else if (dtype == "BF16") {
    const auto widen = [](std::uint16_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U); };
    read_converted(file, offset, values, widen);
  } else {
    read_converted(file, offset, values, from_half);
  }
}

/// In a clone without Git LFS, a small text that names the file stands in its place.
bool is_git_lfs_pointer(const File& file) {
  constexpr std::string_view begins = "version https://git-lfs";
  std::array<char, begins.size()> found{};
  if (file.size() < found.size()) return false;
  file.read(0, std::as_writable_bytes(Span<char>(found)));
  return std::string_view(found.data(), found.size()) == begins;
}

}  // namespace

Safetensors::Safetensors(const fs::path& source) : source_(source) {
  require_input(fs::exists(source), source.string(), ": no such file or directory");
  const bool directory = fs::is_directory(source);
  const fs::path single = source / "model.safetensors", index = source / "model.safetensors.index.json";
  if (!directory) {
    source.extension() == ".json" ? read_index(source) : add_shard(source);
  } else if (fs::exists(single)) {
    add_shard(single);
  } else {
    require_input(fs::exists(index), source.string(), ": holds neither model.safetensors nor model.safetensors.index.json");
    read_index(index);
  }
}

void Safetensors::add_shard(const fs::path& path) {
  const std::string name = printable(path.string());
  require_input(fs::is_regular_file(path), name, ": no such file");
  const File file(path, File::Mode::read);
  const std::uint64_t size = file.size();
  std::uint64_t header_bytes = 0;
  require_input(size >= sizeof header_bytes, name, ": ", "not a safetensors file: it has only ", size, " bytes");
  file.read(0, std::as_writable_bytes(Span<std::uint64_t>(&header_bytes, 1)));
  require_input(!is_git_lfs_pointer(file), name,
                ": a pointer of Git LFS, not the weights themselves; fetch them: git lfs pull");
  const std::uint64_t most = std::min(size - sizeof header_bytes, largest_header);
  require_input(header_bytes <= most, name, ": the first 8 bytes announce a header of ", header_bytes, " bytes; at most ",
                most, " are possible: not a safetensors file, or incomplete");
  std::string header(header_bytes, '\0');
  file.read(sizeof header_bytes, std::as_writable_bytes(Span<char>(header)));
  const std::uint64_t data_begin = sizeof header_bytes + header_bytes;
  for (auto& [tensor, entry] : parse_safetensors_header(header, size - data_begin, name)) {
    const bool fresh = entries_.try_emplace(tensor, std::move(entry)).second;
    require_input(fresh, name, ": ", printable(tensor), " is also in another shard");
    shard_of_[tensor] = shards_.size();
  }
  shards_.push_back({path, data_begin});
}

void Safetensors::read_index(const fs::path& path) {
  const std::string name = printable(path.string());
  const nlohmann::json index = nlohmann::json::parse(read_text_file(path), nullptr, false);
  const bool valid = index.is_object() && index.contains("weight_map") && index["weight_map"].is_object();
  require_input(valid, name, ": not an index of shards: no object weight_map");
  std::map<std::string, std::string> map;  // tensor, shard
  std::vector<std::string> files;
  for (const auto& [tensor, file] : index["weight_map"].items()) {
    const bool plain = file.is_string() && fs::path(file.get<std::string>()).filename() == file.get<std::string>();
    require_input(plain, name, ": ", printable(tensor), ": not the name of a file in the same directory");
    map[tensor] = file.get<std::string>();
    files.push_back(map[tensor]);
  }
  std::sort(files.begin(), files.end());
  files.erase(std::unique(files.begin(), files.end()), files.end());
  for (const std::string& file : files) add_shard(path.parent_path() / file);
  for (const auto& [tensor, file] : map) {
    const auto found = shard_of_.find(tensor);
    require_input(found != shard_of_.end() && shards_[found->second].file.filename() == file, name, ": ", printable(tensor),
                  " is not in ", printable(file));
  }
}

std::string dtype_problem(const std::string& name, const SafetensorsEntry& entry) {
  if (entry.dtype == "F32" || entry.dtype == "BF16" || entry.dtype == "F16") return {};
  return text(name, ": dtype ", entry.dtype, "; weights are read from F32, BF16 and F16");
}

void Safetensors::read(const std::string& name, Range range, Span<float> values) const {
  const auto found = entries_.find(name);
  require_input(found != entries_.end(), source_.string(), ": no tensor ", name);
  const SafetensorsEntry& entry = found->second;
  require(range.end <= entry.elements() && values.size() == range.size(), name, ": elements ", range.begin, " .. ",
          range.end, " of ", entry.elements(), " into ", values.size());
  const Shard& shard = shards_[shard_of_.at(name)];
  const std::string problem = dtype_problem(name, entry);
  require_input(problem.empty(), shard.file.string(), ": ", problem);
  const File file(shard.file, File::Mode::read);
  const std::uint64_t begin = shard.data_begin + entry.begin, element_bytes = entry.dtype == "F32" ? 4 : 2;
  device::in_pieces(values, device::Access::write, elements_at_once, [&](std::size_t first, Span<float> piece) {
    read_values(file, entry.dtype, begin + (range.begin + first) * element_bytes, piece);
  });
}

}  // namespace shoal::io
