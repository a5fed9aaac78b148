// SPDX-License-Identifier: Apache-2.0
#include "shoal/io/token_file.hpp"

#include <hdf5.h>

#include <array>
#include <fstream>
#include <limits>
#include <system_error>

#include "files.hpp"
#include "shoal/base/error.hpp"

namespace shoal::io {

namespace {

using hdf5::checked;
using hdf5::Handle;

constexpr std::size_t largest_vocabulary = std::numeric_limits<std::int32_t>::max();

Handle open(const std::filesystem::path& path) {
  try {
    return hdf5::open_file(path);
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

std::size_t read_vocab_size(const Handle& file, const std::string& path) {
  require_input(hdf5::has_attribute(file, "vocab_size"), path, ": no attribute vocab_size; a tokens file needs one");
  const Handle attribute(H5Aopen(file.id(), "vocab_size", H5P_DEFAULT), H5Aclose, path + ": vocab_size");
  const Handle type(H5Aget_type(attribute.id()), H5Tclose, path + ": vocab_size");
  const Handle space(H5Aget_space(attribute.id()), H5Sclose, path + ": vocab_size");
  require_input(H5Tget_class(type.id()) == H5T_INTEGER && H5Sget_simple_extent_npoints(space.id()) == 1, path,
                ": attribute vocab_size is not one integer");
  std::int64_t value = 0;
  checked(H5Aread(attribute.id(), H5T_NATIVE_INT64, &value), path + ": vocab_size");
  require_input(value > 0 && static_cast<std::size_t>(value) <= largest_vocabulary, path, ": vocab_size = ", value,
                "; allowed: 1 to ", largest_vocabulary);
  return static_cast<std::size_t>(value);
}

/// Strings of uint8 of any length: bytes that are no text, and zeros, stay what they are.
Handle bytes_type(hid_t byte) { return {H5Tvlen_create(byte), H5Tclose, "HDF5: type of /vocabulary"}; }

std::vector<std::string> read_vocabulary(const Handle& file, const std::string& path) {
  const std::string name = path + ": /vocabulary";
  const Handle dataset = hdf5::open_dataset(file, "/vocabulary");
  const std::vector<std::size_t> shape = hdf5::shape_of(dataset, name);
  require_input(shape.size() == 1, name, ": ", shape.size(), " dimensions instead of 1");
  const Handle type(H5Dget_type(dataset.id()), H5Tclose, name);
  if (H5Tis_variable_str(type.id()) > 0) return hdf5::read_texts(file, "/vocabulary");
  require_input(H5Tget_class(type.id()) == H5T_VLEN, name, ": not of variable length; allowed: vlen of uint8, strings");
  const Handle base(H5Tget_super(type.id()), H5Tclose, name);
  require_input(is_unsigned(base, {1}), name, ": its elements are not uint8");

  const Handle memory = bytes_type(H5T_NATIVE_UINT8), space(H5Dget_space(dataset.id()), H5Sclose, name);
  std::vector<hvl_t> entries(shape[0]);
  checked(H5Dread(dataset.id(), memory.id(), H5S_ALL, H5S_ALL, H5P_DEFAULT, entries.data()), name);
  std::vector<std::string> vocabulary;
  vocabulary.reserve(entries.size());
  for (const hvl_t& entry : entries) vocabulary.emplace_back(static_cast<const char*>(entry.p), entry.len);
  checked(H5Dvlen_reclaim(memory.id(), space.id(), H5P_DEFAULT, entries.data()), name);
  return vocabulary;
}

void write_vocabulary(const Handle& file, const std::vector<std::string>& vocabulary) {
  const hsize_t size = vocabulary.size();
  const Handle disk = bytes_type(H5T_STD_U8LE), memory = bytes_type(H5T_NATIVE_UINT8);
  const Handle space(H5Screate_simple(1, &size, nullptr), H5Sclose, "/vocabulary");
  const Handle dataset(H5Dcreate2(file.id(), "/vocabulary", disk.id(), space.id(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
                       H5Dclose, "/vocabulary");
  std::vector<hvl_t> entries;
  entries.reserve(vocabulary.size());
  for (const std::string& token : vocabulary) entries.push_back({token.size(), const_cast<char*>(token.data())});
  checked(H5Dwrite(dataset.id(), memory.id(), H5S_ALL, H5S_ALL, H5P_DEFAULT, entries.data()), "/vocabulary");
}

/// An uninitialised contiguous dataset; returns where in the file its data begins.
std::uint64_t create_tokens(const Handle& file, std::size_t tokens, bool narrow) {
  const hsize_t size = tokens;
  const Handle space(H5Screate_simple(1, &size, nullptr), H5Sclose, "/tokens");
  const Handle create(H5Pcreate(H5P_DATASET_CREATE), H5Pclose, "/tokens");
  checked(H5Pset_alloc_time(create.id(), H5D_ALLOC_TIME_EARLY), "/tokens");
  checked(H5Pset_fill_time(create.id(), H5D_FILL_TIME_NEVER), "/tokens");
  const Handle dataset(H5Dcreate2(file.id(), "/tokens", narrow ? H5T_STD_U16LE : H5T_STD_U32LE, space.id(), H5P_DEFAULT,
                                  create.id(), H5P_DEFAULT),
                       H5Dclose, "/tokens");
  return hdf5::raw_offset(dataset, "/tokens");
}

/// More than the library takes for everything but the tokens: headers, and 32 bytes beside each entry of the vocabulary.
std::uint64_t layout_bytes(const std::vector<std::string>& vocabulary) {
  std::uint64_t bytes = std::uint64_t{1} << 18U;
  for (const std::string& token : vocabulary) bytes += token.size() + 48;
  return bytes;
}

bool fits_uint16(std::size_t vocab_size) { return vocab_size <= 65536; }

template <typename T>
void write_as(File& file, std::uint64_t& position, Span<const std::int32_t> tokens) {
  const std::vector<T> values(tokens.begin(), tokens.end());
  const auto bytes = std::as_bytes(Span<const T>(values));
  file.write(position, bytes);
  position += bytes.size();
}

}  // namespace

bool is_hdf5(const std::filesystem::path& file) {
  constexpr std::array<char, 8> signature{'\x89', 'H', 'D', 'F', '\r', '\n', '\x1a', '\n'};
  std::array<char, 8> first{};
  std::ifstream in(file, std::ios::binary);
  return in.read(first.data(), first.size()) && first == signature;
}

TokenFile::TokenFile(const std::filesystem::path& file) : path_(file), file_(open(file)) {
  vocab_size_ = read_vocab_size(file_, path_.string());
  read_layout();
  if (!hdf5::has_link(file_, "vocabulary")) return;
  vocabulary_ = read_vocabulary(file_, path_.string());
  require_input(vocabulary_.size() <= vocab_size_, path_.string(), ": /vocabulary has ", vocabulary_.size(),
                " tokens, vocab_size is ", vocab_size_);
}

void TokenFile::read_layout() {
  const bool rows = hdf5::has_link(file_, "samples");
  const bool running = hdf5::has_link(file_, "tokens");
  require_input(rows != running, path_.string(), rows ? ": both /tokens and /samples" : ": neither /tokens nor /samples",
                "; a tokens file has one of them");
  const std::string name = rows ? "/samples" : "/tokens";
  const std::string where = path_.string() + ": " + name;
  dataset_ = hdf5::open_dataset(file_, name);
  const Handle type(H5Dget_type(dataset_.id()), H5Tclose, where);
  require_input(is_unsigned(type, {2, 4}), where, ": wrong type; allowed: uint16, uint32");
  const std::vector<std::size_t> shape = hdf5::shape_of(dataset_, where);
  const std::size_t dimensions = rows ? 2 : 1;
  require_input(shape.size() == dimensions, where, ": ", shape.size(), " dimensions instead of ", dimensions);
  size_ = shape[0];
  row_length_ = rows ? shape[1] : 0;
  require_input(size_ > 0, where, ": empty");
}

void TokenFile::read(std::size_t first, Span<std::int32_t> tokens) const {
  const bool rows = row_length_ != 0;
  const std::string name = rows ? "/samples" : "/tokens";
  const std::string where = path_.string() + ": " + name;
  require(first < size_ && (rows ? tokens.size() == row_length_ : tokens.size() <= size_ - first), where, ": ",
          tokens.size(), " tokens from ", first, " on do not exist");
  const std::array<hsize_t, 2> begin{first, 0};
  const std::array<hsize_t, 2> count{rows ? 1 : tokens.size(), tokens.size()};
  const hsize_t size = tokens.size();
  const Handle space(H5Dget_space(dataset_.id()), H5Sclose, where),
      memory(H5Screate_simple(1, &size, nullptr), H5Sclose, where);
  checked(H5Sselect_hyperslab(space.id(), H5S_SELECT_SET, begin.data(), nullptr, count.data(), nullptr), where);
  // Read as unsigned: the library would otherwise cut ids beyond 2^31 down without a word.
  auto* ids = reinterpret_cast<std::uint32_t*>(tokens.data());
  checked(H5Dread(dataset_.id(), H5T_NATIVE_UINT32, memory.id(), space.id(), H5P_DEFAULT, ids), where);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (ids[i] < vocab_size_) continue;
    const std::string place = rows ? text(first, ", ", i) : text(first + i);
    throw Error(Exit::bad_input, Seen::here,
                text(where, "[", place, "] = ", ids[i], ": beyond the vocabulary (vocab_size = ", vocab_size_, ")"));
  }
}

TokenFileWriter::TokenFileWriter(const std::filesystem::path& file, std::size_t tokens, std::size_t vocab_size,
                                 const std::vector<std::string>& vocabulary)
    : path_(file), temporary_{file.string() + ".partial"}, expected_(tokens), vocab_size_(vocab_size) {
  require(tokens > 0 && vocab_size > 0 && vocab_size <= largest_vocabulary, file.string(), ": ", tokens, " tokens of ",
          vocab_size, " symbols cannot be written");
  // On a full disk HDF5 1.10 crashes. So the space is asked for before the library sees the file, and the raw data is
  // written past it.
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

void TokenFileWriter::append(Span<const std::int32_t> tokens) {
  require(tokens.size() <= expected_ - written_, path_.string(), ": more than the ", expected_, " tokens announced");
  for (const std::int32_t id : tokens) {
    require(id >= 0 && static_cast<std::size_t>(id) < vocab_size_, path_.string(), ": token ", id, " of ", vocab_size_);
  }
  if (fits_uint16(vocab_size_)) {
    write_as<std::uint16_t>(*raw_, position_, tokens);
  } else {
    write_as<std::uint32_t>(*raw_, position_, tokens);
  }
  written_ += tokens.size();
}

void TokenFileWriter::finish() {
  require(written_ == expected_, path_.string(), ": ", written_, " of the ", expected_, " tokens announced");
  raw_->sync();
  raw_->close();
  publish(temporary_.path, path_);
  temporary_.path.clear();
}

}  // namespace shoal::io
