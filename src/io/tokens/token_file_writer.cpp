// SPDX-License-Identifier: Apache-2.0
#include <hdf5.h>

#include <system_error>

#include "io/files/files.hpp"
#include "io/files/hash.hpp"
#include "io/hdf5/seal.hpp"
#include "shoal/base/error.hpp"
#include "shoal/io/token_file.hpp"

namespace shoal::io {

namespace {

using hdf5::checked;
using hdf5::Handle;

/// Writes a 1-D dataset and its checksum.
template <typename T>
void write_numbers(const Handle& file, const char* name, hid_t stored, hid_t memory, const std::vector<T>& values) {
  const hsize_t size = values.size();
  const Handle space(H5Screate_simple(1, &size, nullptr), H5Sclose, name);
  const Handle dataset(H5Dcreate2(file.id(), name, stored, space.id(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), H5Dclose,
                       name);
  if (size > 0) checked(H5Dwrite(dataset.id(), memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), name);
  PieceSum sum;
  sum.update(std::as_bytes(Span<const T>(values)));
  hdf5::write_fixed_attribute(dataset, "checksum", hexadecimal(sum.value()));
}

void write_vocabulary(const Handle& file, const std::vector<std::string>& vocabulary) {
  std::vector<std::uint8_t> bytes;
  std::vector<std::uint64_t> offsets = {0};
  for (const std::string& token : vocabulary) {
    bytes.insert(bytes.end(), token.begin(), token.end());
    offsets.push_back(bytes.size());
  }
  write_numbers(file, "/vocabulary_bytes", H5T_STD_U8LE, H5T_NATIVE_UINT8, bytes);
  write_numbers(file, "/vocabulary_offsets", H5T_STD_U64LE, H5T_NATIVE_UINT64, offsets);
}

/// Creates a contiguous dataset without initializing it. Returns the offset of its data in the file.
std::uint64_t create_tokens(const Handle& file, std::size_t tokens, bool narrow) {
  const hsize_t size = tokens;
  const Handle space(H5Screate_simple(1, &size, nullptr), H5Sclose, "/tokens");
  const Handle create(H5Pcreate(H5P_DATASET_CREATE), H5Pclose, "/tokens");
  checked(H5Pset_alloc_time(create.id(), H5D_ALLOC_TIME_EARLY), "/tokens");
  checked(H5Pset_fill_time(create.id(), H5D_FILL_TIME_NEVER), "/tokens");
  const Handle dataset(H5Dcreate2(file.id(), "/tokens", narrow ? H5T_STD_U16LE : H5T_STD_U32LE, space.id(), H5P_DEFAULT,
                                  create.id(), H5P_DEFAULT),
                       H5Dclose, "/tokens");
  hdf5::write_fixed_attribute(dataset, "checksum", hexadecimal(0));
  return hdf5::raw_offset(dataset, "/tokens");
}

/// An upper bound for everything but the tokens: HDF5's headers, and the vocabulary with its offsets.
std::uint64_t layout_bytes(const std::vector<std::string>& vocabulary) {
  std::uint64_t bytes = std::uint64_t{1} << 18U;
  for (const std::string& token : vocabulary) bytes += token.size() + 16;
  return bytes;
}

bool fits_uint16(std::size_t vocab_size) { return vocab_size <= 65536; }

}  // namespace

TokenFileWriter::TokenFileWriter(const std::filesystem::path& file, std::size_t tokens, std::size_t vocab_size,
                                 const std::vector<std::string>& vocabulary)
    : path_(file),
      temporary_{file.string() + ".partial"},
      sum_(std::make_unique<PieceSum>()),
      expected_(tokens),
      vocab_size_(vocab_size) {
  require(tokens > 0 && vocab_size > 0 && vocab_size <= TokenFile::largest_vocabulary, file.string(), ": ", tokens,
          " tokens of ", vocab_size, " symbols cannot be written");
  // HDF5 1.10 crashes on a full disk. So the space is reserved before the library opens the file, and the tokens are written
  // without the library.
  const std::uint64_t bytes = tokens * (fits_uint16(vocab_size) ? 2 : 4);
  File(temporary_.path, File::Mode::create).reserve(0, bytes + layout_bytes(vocabulary));
  Handle handle = hdf5::create_file(temporary_.path, false);
  hdf5::write_attribute(handle, "vocab_size", static_cast<std::int64_t>(vocab_size));
  if (!vocabulary.empty()) write_vocabulary(handle, vocabulary);
  position_ = create_tokens(handle, tokens, fits_uint16(vocab_size));
  hdf5::close_file(handle, temporary_.path.string());
  raw_ = std::make_unique<File>(temporary_.path, File::Mode::write);
  raw_->reserve(position_, position_ + bytes);
}

TokenFileWriter::~TokenFileWriter() = default;

TokenFileWriter::Temporary::~Temporary() {
  std::error_code ignored;
  if (!path.empty()) std::filesystem::remove(path, ignored);
}

template <typename T>
void TokenFileWriter::write_as(Span<const std::int32_t> tokens) {
  const std::vector<T> values(tokens.begin(), tokens.end());
  const auto bytes = std::as_bytes(Span<const T>(values));
  raw_->write(position_, bytes);
  sum_->update(bytes);
  position_ += bytes.size();
}

void TokenFileWriter::append(Span<const std::int32_t> tokens) {
  require(tokens.size() <= expected_ - written_, path_.string(), ": more than the ", expected_,
          " tokens that were announced");
  for (const std::int32_t id : tokens) {
    require(id >= 0 && static_cast<std::size_t>(id) < vocab_size_, path_.string(), ": token ", id, " of ", vocab_size_);
  }
  fits_uint16(vocab_size_) ? write_as<std::uint16_t>(tokens) : write_as<std::uint32_t>(tokens);
  written_ += tokens.size();
}

void TokenFileWriter::finish() {
  require(written_ == expected_, path_.string(), ": ", written_, " of the ", expected_, " tokens that were announced");
  raw_->close();
  const std::uint64_t bytes = expected_ * (fits_uint16(vocab_size_) ? 2 : 4);
  {
    Handle file = hdf5::edit_file(temporary_.path), dataset = hdf5::open_dataset(file, "/tokens");
    hdf5::write_fixed_attribute(dataset, "checksum", hexadecimal(sum_->value()));
    dataset.close(temporary_.path.string());
    hdf5::close_file(file, temporary_.path.string());
  }
  seal(temporary_.path, {{position_ - bytes, bytes}});
  File whole(temporary_.path, File::Mode::write);
  whole.truncate(whole.size());  // frees the space that was reserved beyond the end
  whole.sync();
  whole.close();
  commit_file(temporary_.path, path_);
  temporary_.path.clear();
}

}  // namespace shoal::io
