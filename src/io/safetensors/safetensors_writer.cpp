// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include "io/files/files.hpp"
#include "shoal/base/error.hpp"
#include "shoal/io/safetensors.hpp"

namespace shoal::io {

namespace fs = std::filesystem;

namespace {

constexpr const char* metadata_key = "__metadata__";

}  // namespace

bool is_our_safetensors(const fs::path& path) {
  const nlohmann::ordered_json ours = {{metadata_key, {{"format", "pt"}, {"program", "shoal"}}}};
  std::string expected = ours.dump();
  expected.pop_back();  // the brace: tensors follow
  const File file(path, File::Mode::read);
  std::string begin(expected.size(), '\0');
  if (file.size() < sizeof(std::uint64_t) + begin.size()) return false;
  file.read(sizeof(std::uint64_t), std::as_writable_bytes(Span<char>(begin)));
  return begin == expected;
}

SafetensorsWriter::SafetensorsWriter(const fs::path& file, const std::vector<Tensor>& tensors)
    : file_(file), temporary_(file.string() + ".partial") {
  nlohmann::ordered_json header;
  header[metadata_key] = {{"format", "pt"}, {"program", "shoal"}};  // transformers refuses a file without "format"
  for (const Tensor& tensor : tensors) {
    const std::uint64_t begin = expected_;
    std::uint64_t bytes = sizeof(float);
    for (const std::size_t extent : tensor.shape) bytes *= extent;
    expected_ += bytes;
    require(!header.contains(tensor.name), file.string(), ": ", tensor.name, " is listed twice");
    header[tensor.name] = {{"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", {begin, expected_}}};
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');  // so that the data begin at a multiple of 8
  const std::uint64_t length = text.size();
  data_begin_ = sizeof length + length;
  output_ = std::make_unique<File>(temporary_, File::Mode::create);
  try {
    output_->reserve(0, data_begin_ + expected_);
    output_->write(0, std::as_bytes(Span<const std::uint64_t>(&length, 1)));
    output_->write(sizeof length, std::as_bytes(Span<const char>(text)));
  } catch (const Error&) {
    discard();
    throw;
  }
}

SafetensorsWriter::~SafetensorsWriter() { discard(); }

void SafetensorsWriter::discard() {
  if (output_ == nullptr) return;
  std::error_code ignored;
  fs::remove(temporary_, ignored);
  output_.reset();
}

void SafetensorsWriter::append(Span<const float> values) {
  require(values.size_bytes() <= expected_ - written_, file_.string(), ": more values than the tensors listed have");
  output_->write(data_begin_ + written_, std::as_bytes(values));
  written_ += values.size_bytes();
}

void SafetensorsWriter::finish() {
  require(written_ == expected_, file_.string(), ": ", written_, " bytes of ", expected_, " were written");
  output_->sync();
  output_->close();
  commit_file(temporary_, file_);
  output_.reset();
}

}  // namespace shoal::io
