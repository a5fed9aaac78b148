// SPDX-License-Identifier: Apache-2.0
// Hugging Face's safetensors format: the length of the header (8 bytes), a JSON header, then the raw tensors. When a file is
// read, every offset is checked before it is used. A file that is written gets its name only when it is complete.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "shoal/base/types.hpp"

namespace shoal::io {

class File;

struct SafetensorsEntry {
  std::string dtype;  ///< F32, BF16, F16, ...
  std::vector<std::size_t> shape;
  std::uint64_t begin = 0, end = 0;  ///< in bytes from the start of the data
  std::size_t elements() const;
};

/// Returns why the tensor cannot be read as float; empty if it can.
std::string dtype_problem(const std::string& name, const SafetensorsEntry& entry);

/// Reads the tensors of one file, of a Hugging Face directory (model.safetensors, or model.safetensors.index.json and the
/// shards that it names), or of an index file and its shards. Headers are checked: sizes agree with shapes and dtypes,
/// ranges do not overlap or leave the file, and every byte belongs to a tensor.
class Safetensors {
 public:
  explicit Safetensors(const std::filesystem::path& file_or_directory);
  const std::map<std::string, SafetensorsEntry>& entries() const { return entries_; }
  /// Reads the elements `range` of a tensor and converts them to float (from F32, BF16 or F16). values: of the host or of
  /// the device.
  void read(const std::string& name, Range range, Span<float> values) const;

 private:
  struct Shard {
    std::filesystem::path file;
    std::uint64_t data_begin = 0;
  };
  void add_shard(const std::filesystem::path& file);
  void read_index(const std::filesystem::path& index);

  std::filesystem::path source_;
  std::vector<Shard> shards_;
  std::map<std::string, SafetensorsEntry> entries_;
  std::map<std::string, std::size_t> shard_of_;  // index in shards_, by tensor
};

/// Parses and checks the JSON header (the fuzzer calls this). data_bytes: number of bytes that follow the header in the
/// file. where: the name of the file, for errors.
std::map<std::string, SafetensorsEntry> parse_safetensors_header(std::string_view json, std::uint64_t data_bytes,
                                                                 const std::string& where);

/// Returns true if SafetensorsWriter wrote this file, according to its header.
bool is_our_safetensors(const std::filesystem::path& file);

/// Writes float tensors one after another, without having all of them in memory. Names and shapes come first; then append()
/// takes the tensors' values in that order, in any number of parts, from memory of the host. finish() syncs the file and
/// gives it its name.
class SafetensorsWriter {
 public:
  struct Tensor {
    std::string name;
    std::vector<std::size_t> shape;
  };
  SafetensorsWriter(const std::filesystem::path& file, const std::vector<Tensor>& tensors);
  ~SafetensorsWriter();  ///< removes the file if it is unfinished
  SafetensorsWriter(const SafetensorsWriter&) = delete;
  SafetensorsWriter& operator=(const SafetensorsWriter&) = delete;
  void append(Span<const float> values);
  void finish();

 private:
  void discard();

  std::filesystem::path file_, temporary_;
  std::unique_ptr<File> output_;  // until finish()
  std::uint64_t data_begin_ = 0, expected_ = 0, written_ = 0;
};

}  // namespace shoal::io
