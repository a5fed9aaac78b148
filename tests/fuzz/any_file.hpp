// SPDX-License-Identifier: Apache-2.0
// Valid HDF5 files with unexpected content. The fuzzer's bytes choose types, sizes and layouts of the attributes and
// datasets that a reader looks for. In the finished file only bytes are changed that our readers interpret themselves:
// references to values of variable length, the heaps that hold these values, and the seal. So our readers are tested, not
// the HDF5 library.
#pragma once

#include <hdf5.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "shoal/base/error.hpp"

namespace shoal::fuzz {

/// Reads the fuzzer's bytes one after another, and zeros after the last one.
class Bytes {
 public:
  Bytes(const std::uint8_t* data, std::size_t size) : data_(data), left_(size) {}
  std::uint64_t number(std::size_t bytes) {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < bytes && left_ > 0; ++i, --left_) value |= std::uint64_t{*data_++} << 8 * i;
    return value;
  }
  std::uint64_t below(std::uint64_t count) { return number(count > 256 ? 4 : 1) % count; }
  bool one_in(std::uint64_t count) { return below(count) == count - 1; }
  bool empty() const { return left_ == 0; }

 private:
  const std::uint8_t* data_;
  std::size_t left_;
};

/// A temporary file in memory that has a path.
class MemoryFile {
 public:
  MemoryFile() : path_("/dev/shm/shoal-fuzz-XXXXXX"), descriptor_(::mkstemp(path_.data())) {
    if (descriptor_ < 0) std::abort();
  }
  ~MemoryFile() {
    ::close(descriptor_);
    ::unlink(path_.c_str());
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  const std::string& path() const { return path_; }
  std::uint64_t size() const {
    struct stat status {};
    ::fstat(descriptor_, &status);
    return static_cast<std::uint64_t>(status.st_size);
  }
  std::string content() const {
    std::string all(size(), '\0');
    if (::pread(descriptor_, all.data(), all.size(), 0) != static_cast<ssize_t>(all.size())) std::abort();
    return all;
  }
  void put(std::uint64_t at, std::uint8_t byte) const {
    if (at < size() && ::pwrite(descriptor_, &byte, 1, static_cast<off_t>(at)) != 1) std::abort();
  }
  void cut(std::uint64_t bytes) const {
    if (::ftruncate(descriptor_, static_cast<off_t>(bytes)) != 0) std::abort();
  }

 private:
  std::string path_;
  int descriptor_;
};

/// A range of bytes in a file.
struct Extent {
  std::uint64_t offset = 0, bytes = 0;
};

class AnyFile {
 public:
  AnyFile(Bytes& bytes, const std::string& path) : bytes_(bytes) {
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
    file_ = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    if (file_ < 0) std::abort();
  }
  ~AnyFile() { H5Fclose(file_); }
  AnyFile(const AnyFile&) = delete;
  AnyFile& operator=(const AnyFile&) = delete;
  hid_t id() const { return file_; }

  /// Adds an attribute: usually one value of type `wanted`, sometimes another type or number of values, or no attribute.
  void attribute(hid_t at, const char* name, hid_t wanted) {
    if (bytes_.one_in(16)) return;
    const hid_t type = bytes_.one_in(4) ? any_type() : H5Tcopy(wanted),
                space = bytes_.one_in(4) ? any_space(true) : H5Screate(H5S_SCALAR);
    const hid_t made = H5Acreate2(at, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
    if (made >= 0) {
      const Values values(bytes_, type, count_of(space));
      H5Awrite(made, type, values.data());
      H5Aclose(made);
    }
    H5Sclose(space);
    H5Tclose(type);
  }

  /// Adds a dataset, usually of type `wanted`, sometimes none. of_attribute: type of its checksum; -1: it has none. Returns
  /// where the file stores its raw data, if it does.
  Extent dataset(const char* name, hid_t wanted, int dimensions, hid_t of_attribute = -1) {
    if (bytes_.one_in(8)) return {};
    const hid_t type = bytes_.one_in(4) ? any_type() : H5Tcopy(wanted),
                space = bytes_.one_in(4) ? any_space(false) : small_space(dimensions);
    const hid_t create = any_layout(space), links = H5Pcreate(H5P_LINK_CREATE);
    H5Pset_create_intermediate_group(links, 1);
    const hid_t made = H5Dcreate2(file_, name, type, space, links, create, H5P_DEFAULT);
    Extent extent;
    if (made >= 0) {
      if (count_of(space) <= most_written && !bytes_.one_in(16)) {
        const Values values(bytes_, type, count_of(space));
        H5Dwrite(made, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data());
      }
      if (of_attribute >= 0) attribute(made, "checksum", of_attribute);
      const haddr_t offset = H5Dget_offset(made);
      if (offset != HADDR_UNDEF) extent = {offset, H5Dget_storage_size(made)};
      H5Dclose(made);
    }
    for (const hid_t list : {create, links}) H5Pclose(list);
    H5Sclose(space);
    H5Tclose(type);
    return extent;
  }

  static hid_t text() {
    const hid_t type = H5Tcopy(H5T_C_S1);
    H5Tset_size(type, H5T_VARIABLE);
    H5Tset_cset(type, H5T_CSET_UTF8);
    return type;
  }

 private:
  static constexpr std::uint64_t most_written = 5000;

  /// `count` values of a type. Pointers to values of variable length are valid.
  class Values {
   public:
    Values(Bytes& bytes, hid_t type, std::uint64_t count) : raw_(count * H5Tget_size(type) + 1) {
      const bool strings = H5Tis_variable_str(type) > 0, variable = H5Tget_class(type) == H5T_VLEN;
      const std::uint64_t filled = std::min<std::uint64_t>(count, 64);  // the others are zeros, or the same again
      if (strings || variable) texts_.resize(filled);
      for (std::uint64_t i = 0; i < filled; ++i) {
        if (!strings && !variable) break;
        texts_[i].assign(bytes.below(40), static_cast<char>('a' + i % 26));
      }
      for (std::uint64_t i = 0; i < count && (strings || variable); ++i) {
        std::string& text = texts_[i % filled];
        if (strings) {
          const char* const pointer = text.c_str();
          std::memcpy(raw_.data() + i * sizeof pointer, &pointer, sizeof pointer);
        } else {
          const hid_t base = H5Tget_super(type);
          const hvl_t value{text.size() / H5Tget_size(base), text.data()};
          H5Tclose(base);
          std::memcpy(raw_.data() + i * sizeof value, &value, sizeof value);
        }
      }
      if (strings || variable) return;
      for (std::size_t i = 0; i < std::min<std::size_t>(raw_.size(), 64); ++i) raw_[i] = static_cast<char>(bytes.number(1));
    }
    const void* data() const { return raw_.data(); }

   private:
    std::vector<char> raw_;
    std::vector<std::string> texts_;
  };

  static std::uint64_t count_of(hid_t space) {
    return static_cast<std::uint64_t>(std::max<hssize_t>(0, H5Sget_simple_extent_npoints(space)));
  }

  hid_t any_type() {
    const hid_t plain[] = {H5T_STD_I8LE,  H5T_STD_U8LE,  H5T_STD_U16LE, H5T_STD_U16BE,  H5T_STD_U32LE,  H5T_STD_I32BE,
                           H5T_STD_U64LE, H5T_STD_I64BE, H5T_STD_B8LE,  H5T_IEEE_F32LE, H5T_IEEE_F32BE, H5T_IEEE_F64LE};
    switch (bytes_.below(7)) {
      case 0: return text();
      case 1: {
        const hid_t fixed = H5Tcopy(H5T_C_S1);
        H5Tset_size(fixed, 1 + bytes_.below(20));
        return fixed;
      }
      case 2: return H5Tvlen_create(plain[bytes_.below(12)]);
      case 3: {
        const hid_t record = H5Tcreate(H5T_COMPOUND, 16);
        H5Tinsert(record, "first", 0, plain[bytes_.below(12)]);
        H5Tinsert(record, "count", 8, plain[bytes_.below(12)]);
        return record;
      }
      case 4: {
        const hsize_t length = 1 + bytes_.below(50);
        return H5Tarray_create2(plain[bytes_.below(12)], 1, &length);
      }
      case 5: return H5Tcreate(H5T_OPAQUE, 1 + bytes_.below(32));
      default: return H5Tcopy(plain[bytes_.below(12)]);
    }
  }

  hid_t small_space(int dimensions) {
    if (dimensions == 0) return H5Screate(H5S_SCALAR);
    std::vector<hsize_t> shape;
    for (int i = 0; i < dimensions; ++i) shape.push_back(bytes_.below(40));
    const std::vector<hsize_t> most(shape.size(), H5S_UNLIMITED);
    return H5Screate_simple(dimensions, shape.data(), bytes_.one_in(3) ? most.data() : nullptr);
  }

  hid_t any_space(bool small) {
    if (bytes_.one_in(6)) return H5Screate(H5S_NULL);
    if (bytes_.one_in(3)) return small_space(static_cast<int>(bytes_.below(4)));
    const hsize_t length = small ? bytes_.below(3000) : bytes_.number(bytes_.below(8));
    return H5Screate_simple(1, &length, nullptr);
  }

  hid_t any_layout(hid_t space) {
    const hid_t create = H5Pcreate(H5P_DATASET_CREATE);
    const int dimensions = H5Sget_simple_extent_ndims(space);
    hsize_t most[H5S_MAX_RANK] = {};
    H5Sget_simple_extent_dims(space, nullptr, most);
    const bool grows = dimensions > 0 && most[0] == H5S_UNLIMITED;
    if (dimensions > 0 && (grows || bytes_.one_in(4))) {
      std::vector<hsize_t> chunk(static_cast<std::size_t>(dimensions), 1 + bytes_.below(100));
      H5Pset_chunk(create, dimensions, chunk.data());
      if (bytes_.one_in(4)) H5Pset_shuffle(create);
      if (bytes_.one_in(4)) H5Pset_deflate(create, 1);
    } else if (bytes_.one_in(8)) {
      H5Pset_layout(create, H5D_COMPACT);
    } else if (!bytes_.one_in(4) && count_of(space) < most_written) {
      H5Pset_alloc_time(create, H5D_ALLOC_TIME_EARLY);
    }
    return create;
  }

  Bytes& bytes_;
  hid_t file_;
};

/// Changes up to five bytes of the extent.
inline void damage(Bytes& bytes, const MemoryFile& file, Extent extent) {
  if (extent.bytes == 0) return;
  for (std::uint64_t left = bytes.below(6); left > 0; --left) {
    const std::uint64_t at = extent.offset + bytes.below(std::min<std::uint64_t>(extent.bytes, 1U << 16U));
    file.put(at, static_cast<std::uint8_t>(bytes.number(1)));
  }
}

/// Damages about half of the heaps that hold values of variable length; they begin with "GCOL".
inline void damage_heaps(Bytes& bytes, const MemoryFile& file) {
  const std::string content = file.content();
  for (std::size_t at = content.find("GCOL"); at != std::string::npos; at = content.find("GCOL", at + 4)) {
    if (bytes.one_in(2)) damage(bytes, file, {at, std::min<std::size_t>(content.size() - at, 1024)});
  }
}

/// Fills the file: build(AnyFile) adds the content, and returns the extent of a dataset that holds references to values of
/// variable length. Then damages these references, and the heaps.
template <typename Build>
void make(Bytes& bytes, const MemoryFile& file, Build&& build) {
  Extent references;
  {
    AnyFile h5(bytes, file.path());
    references = build(h5);
  }
  damage(bytes, file, references);
  damage_heaps(bytes, file);
}

/// Calls read(). It must return, or throw an Error whose message is one line that begins with the file's path.
template <typename Read>
void must_be_read_or_refused(const MemoryFile& file, Read&& read) {
  try {
    read();
  } catch (const Error& error) {
    const std::string_view what = error.what();
    if (!what.starts_with(file.path()) || what.find('\n') != std::string_view::npos) std::abort();
  }
}

}  // namespace shoal::fuzz
