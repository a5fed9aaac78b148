// SPDX-License-Identifier: Apache-2.0
#include "shoal/io/token_file.hpp"

#include <hdf5.h>

#include <algorithm>
#include <array>

#include "io/files/files.hpp"
#include "io/files/hash.hpp"
#include "io/files/named_errors.hpp"
#include "io/hdf5/hdf5_checks.hpp"
#include "io/hdf5/hdf5_driver.hpp"
#include "io/hdf5/newer_format.hpp"
#include "io/hdf5/packed_chunk.hpp"
#include "io/hdf5/seal.hpp"
#include "io/tokens/token_checks.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/heartbeat.hpp"

namespace shoal::io {

namespace {

using hdf5::checked;
using hdf5::Handle;

constexpr std::size_t longest_row = std::size_t{1} << 28U;

/// Number of tokens that verify() reads at a time.
constexpr std::size_t read_tokens = std::size_t{1} << 20U;

Handle open(const std::filesystem::path& path) {
  try {
    find_seal(path);  // before HDF5 sees the file
    Handle file = hdf5::open_file(path);
    hdf5::require_closed(hdf5::driver_file(file));
    return file;
  } catch (const SystemError&) {
    throw;
  } catch (const Error& error) {
    bad_input(error.what());
  }
}

bool is_unsigned(const Handle& type, std::initializer_list<std::size_t> sizes) {
  if (H5Tget_class(type.id()) != H5T_INTEGER || H5Tget_sign(type.id()) != H5T_SGN_NONE) return false;
  for (const std::size_t size : sizes) {
    if (H5Tget_size(type.id()) == size) return true;
  }
  return false;
}

void require_checksum(const Handle& dataset, const PieceSum& found, const std::string& name) {
  const std::uint64_t expected = parse_hexadecimal(hdf5::text_attribute(dataset, "checksum"), name);
  require_input(found.value() == expected, name, ": checksum ", hexadecimal(found.value()), ", expected ",
                hexadecimal(expected), "; the file is damaged");
}

std::size_t read_vocab_size(const Handle& file) {
  require_input(hdf5::has_attribute(file, "vocab_size"), "no attribute vocab_size; a tokens file needs one");
  const std::int64_t value = hdf5::number_attribute(file, "vocab_size");
  require_input(value > 0 && static_cast<std::size_t>(value) <= TokenFile::largest_vocabulary, "vocab_size = ", value,
                "; allowed: 1 to ", TokenFile::largest_vocabulary);
  return static_cast<std::size_t>(value);
}

/// Reads a 1-D dataset of unsigned integers of the size of T, and compares its checksum if it has one. memory: the HDF5 type
/// of T.
template <typename T>
std::vector<T> read_integers(const Handle& file, const std::string& name, hid_t memory) {
  const Handle dataset = hdf5::open_dataset(file, name), type(H5Dget_type(dataset.id()), H5Tclose, name);
  require_input(is_unsigned(type, {sizeof(T)}), name, ": wrong type; allowed: uint", 8 * sizeof(T));
  const std::vector<std::size_t> shape = hdf5::shape_of(dataset, name);
  require_input(shape.size() == 1, name, ": ", shape.size(), " dimensions instead of 1");
  hdf5::require_stored(dataset, name);
  require_input(shape[0] <= hdf5::longest_text, name, ": ", shape[0], " elements; allowed: up to ", hdf5::longest_text);
  std::vector<T> values(shape[0]);
  if (!values.empty()) checked(H5Dread(dataset.id(), memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), name);
  if (!hdf5::has_attribute(dataset, "checksum")) return values;
  PieceSum sum;
  sum.update(std::as_bytes(Span<const T>(values)));
  require_checksum(dataset, sum, name);
  return values;
}

std::vector<std::string> read_divided(const Handle& file) {
  const auto bytes = read_integers<std::uint8_t>(file, "/vocabulary_bytes", H5T_NATIVE_UINT8);
  const auto offsets = read_integers<std::uint64_t>(file, "/vocabulary_offsets", H5T_NATIVE_UINT64);
  const std::string name = "/vocabulary_offsets";
  require_input(!offsets.empty() && offsets.front() == 0 && offsets.back() == bytes.size(), name,
                ": the first must be 0, and the last ", bytes.size(), ", the number of bytes in /vocabulary_bytes");
  std::vector<std::string> vocabulary;
  vocabulary.reserve(offsets.size() - 1);
  for (std::size_t i = 1; i < offsets.size(); ++i) {
    require_input(offsets[i - 1] <= offsets[i] && offsets[i] <= bytes.size(), name, "[", i, "] = ", offsets[i],
                  ": less than the offset before it, or beyond the end of /vocabulary_bytes");
    const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(offsets[i - 1]);
    vocabulary.emplace_back(begin, bytes.begin() + static_cast<std::ptrdiff_t>(offsets[i]));
  }
  return vocabulary;
}

}  // namespace

TokenFile::TokenFile(const std::filesystem::path& file) : file_(open(file)) {
  layout_.path = file;
  with_file_name(file, [&] {
    hdf5::with_advice_on_format(file, [&] {
      layout_.vocab_size = read_vocab_size(file_);
      read_layout();
      read_vocabulary();
    });
    require_input(vocabulary_.size() <= layout_.vocab_size, "/vocabulary has ", vocabulary_.size(),
                  " tokens, vocab_size is ", layout_.vocab_size);
  });
}

void TokenFile::read_vocabulary() {
  if (hdf5::has_link(file_, "vocabulary_bytes")) {
    vocabulary_ = read_divided(file_);
  } else if (hdf5::has_link(file_, "vocabulary")) {  // of older versions of this program, and of others
    vocabulary_ = hdf5::read_byte_strings(file_, "/vocabulary");
  }
}

void TokenFile::read_layout() {
  const bool rows = hdf5::has_link(file_, "samples");
  const bool running = hdf5::has_link(file_, "tokens");
  require_input(rows != running, rows ? "both /tokens and /samples" : "neither /tokens nor /samples",
                "; a tokens file has one of them");
  const std::string where = rows ? "/samples" : "/tokens";
  dataset_ = hdf5::open_dataset(file_, where);
  const Handle type(H5Dget_type(dataset_.id()), H5Tclose, where);
  require_input(is_unsigned(type, {2, 4}), where, ": wrong type; allowed: uint16, uint32");
  const std::vector<std::size_t> shape = hdf5::shape_of(dataset_, where);
  const std::size_t dimensions = rows ? 2 : 1;
  require_input(shape.size() == dimensions, where, ": ", shape.size(), " dimensions instead of ", dimensions);
  layout_.size = shape[0];
  layout_.row_length = rows ? shape[1] : 0;
  require_input(layout_.size > 0, where, ": empty");
  require_input(!rows || (layout_.row_length > 0 && layout_.row_length <= longest_row), where, ": rows of ",
                layout_.row_length, " tokens; allowed: 1 to ", longest_row);
  hdf5::require_stored(dataset_, where, hdf5::Chunks::later);
  const Handle create(H5Dget_create_plist(dataset_.id()), H5Pclose, where);
  std::array<hsize_t, 2> chunk{};
  if (!hdf5::filters_of(create, where).empty() && H5Pget_layout(create.id()) == H5D_CHUNKED) {
    checked(H5Pget_chunk(create.id(), static_cast<int>(dimensions), chunk.data()), where);
  }
  chunk_rows_ = chunk[0];
  const bool plain = H5Pget_layout(create.id()) == H5D_CONTIGUOUS &&
                     (H5Tequal(type.id(), H5T_STD_U16LE) > 0 || H5Tequal(type.id(), H5T_STD_U32LE) > 0);
  if (!plain) return;
  layout_.width = H5Tget_size(type.id());
  layout_.offset = hdf5::raw_offset(dataset_, where);
  const std::uint64_t bytes = H5Dget_storage_size(dataset_.id()), all = hdf5::file_bytes(file_);
  require_input(layout_.offset <= all && bytes <= all - layout_.offset, where, ": its ", bytes, " bytes at ", layout_.offset,
                " are not all in the file; it is damaged");
}

void TokenFile::read(std::size_t first, Span<std::int32_t> tokens) const {
  require_range(layout_, first, tokens.size());
  // Read as unsigned: the library would silently reduce ids beyond 2^31 to the largest signed number.
  auto* ids = reinterpret_cast<std::uint32_t*>(tokens.data());
  try {
    read_part(first, layout_.row_length != 0 ? 1 : tokens.size(), ids);
  } catch (const SystemError&) {
    throw;
  } catch (const Error& error) {
    fail(layout_.path.string(), ": ", error.what());
  }
  require_in_vocabulary(layout_, first, tokens);
}

bool TokenFile::verify() const {
  if (!hdf5::has_attribute(dataset_, "checksum")) return false;
  with_file_name(layout_.path, [&] { verify_tokens(); });
  return true;
}

void TokenFile::verify_tokens() const {
  const std::string where = layout_.row_length != 0 ? "/samples" : "/tokens";
  const Handle type(H5Dget_type(dataset_.id()), H5Tclose, where);
  const bool narrow = H5Tget_size(type.id()) == sizeof(std::uint16_t);
  const std::size_t width = std::max<std::size_t>(layout_.row_length, 1),
                    at_once = std::max<std::size_t>(read_tokens / width, 1);
  std::vector<std::uint32_t> wide;
  std::vector<std::uint16_t> values;
  PieceSum sum;
  for (std::size_t first = 0; first < layout_.size; first += at_once) {
    const std::size_t count = std::min(at_once, layout_.size - first);
    wide.resize(count * width);
    read_part(first, count, wide.data());
    if (narrow) values.assign(wide.begin(), wide.end());
    sum.update(narrow ? std::as_bytes(Span<const std::uint16_t>(values)) : std::as_bytes(Span<const std::uint32_t>(wide)));
    heartbeat::beat();
  }
  require_checksum(dataset_, sum, where);
}

/// Checks the chunks of compressed tokens when they are first read.
void TokenFile::require_whole(std::size_t first, std::size_t count, const std::string& where) const {
  if (chunk_rows_ == 0) return;
  for (std::size_t row = first / chunk_rows_ * chunk_rows_; row < first + count; row += chunk_rows_) {
    if (whole_.insert(row).second) hdf5::require_whole_chunks(dataset_, row, 1, where);
  }
}

/// Reads `count` tokens, or rows, from `first` on.
void TokenFile::read_part(std::size_t first, std::size_t count, std::uint32_t* ids) const {
  const std::string where = layout_.row_length != 0 ? "/samples" : "/tokens";
  const std::array<hsize_t, 2> begin{first, 0};
  const std::array<hsize_t, 2> counts{count, layout_.row_length};
  require_whole(first, count, where);
  const hsize_t size = count * std::max<std::size_t>(layout_.row_length, 1);
  const Handle space(H5Dget_space(dataset_.id()), H5Sclose, where),
      memory(H5Screate_simple(1, &size, nullptr), H5Sclose, where);
  checked(H5Sselect_hyperslab(space.id(), H5S_SELECT_SET, begin.data(), nullptr, counts.data(), nullptr), where);
  checked(H5Dread(dataset_.id(), H5T_NATIVE_UINT32, memory.id(), space.id(), H5P_DEFAULT, ids), where);
}

}  // namespace shoal::io
