// SPDX-License-Identifier: Apache-2.0
// HDF5 with handles that close themselves and calls whose results are checked. Only io/ includes hdf5.h.
//
// [Note: HDF5 by rank 0, raw data by all ranks] Files with data of all ranks (checkpoints, traces) are laid out by rank 0
// alone: it creates groups, attributes and datasets, whose space is allocated early and not initialized, and sends the
// offset of each dataset (or chunk) in the file to the other ranks. Then all ranks write their raw data at once, directly
// from their buffers to those offsets. The file is plain HDF5; no rank but 0 waits in a metadata operation, none of
// HDF5 1.10's collective metadata calls (which spin, and hang or crash on a full disk) is made, and what is written is
// contiguous.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace shoal::io {

/// ("HDF5", "1.10.8 parallel").
std::pair<std::string, std::string> library_version();

/// Returns true if the file begins with HDF5's signature; bad_input() if it has one behind a user block. The file must
/// exist; an error if it cannot be read.
bool is_hdf5(const std::filesystem::path& file);

namespace hdf5 {

using Id = std::int64_t;  ///< hid_t

/// An HDF5 identifier that its destructor closes.
class Handle {
 public:
  using Close = int (*)(Id);
  Handle() = default;
  /// Throws an Error with `what` and HDF5's own reason if id is negative.
  Handle(Id id, Close closer, const std::string& what);
  Handle(Handle&& other) noexcept;
  Handle& operator=(Handle&& other) noexcept;
  ~Handle();
  Id id() const { return id_; }
  explicit operator bool() const { return id_ >= 0; }
  /// Closes now, and throws an Error if that fails, which the destructor cannot. For files that were written: close_file().
  void close(const std::string& what);

 private:
  Id id_ = -1;
  Close close_ = nullptr;
};

/// The most specific entry of the library's error stack, as one line.
std::string reason();
/// Returns `result`, a return value of the library; if it is negative, throws an Error "what: reason".
template <typename T>
T checked(T result, const std::string& what);

/// Creates a file in a format that HDF5 1.8 and later versions read. An existing file is emptied; if exclusive, it is an
/// error.
Handle create_file(const std::filesystem::path& file, bool exclusive);
/// Opens it for reading, in any format that the library reads.
Handle open_file(const std::filesystem::path& file);
Handle edit_file(const std::filesystem::path& file);  ///< opens it for writing
/// Passes everything to the operating system. Failed writes are reported only here and by close_file(), as an Error.
void flush(const Handle& file, const std::string& what);
void close_file(Handle& file, const std::string& what);
Handle create_group(const Handle& at, const std::string& name);
Handle open_group(const Handle& at, const std::string& name);
Handle open_dataset(const Handle& at, const std::string& name);
bool has_attribute(const Handle& at, const std::string& name);
bool has_link(const Handle& at, const std::string& name);

/// Creates a contiguous dataset of float32. Its space is allocated at once and not initialized. Missing groups are created.
Handle create_floats(const Handle& file, const std::string& name, const std::vector<std::size_t>& shape);
/// Offset in the file of the raw data of a contiguous dataset; 0 if it has none.
std::uint64_t raw_offset(const Handle& dataset, const std::string& name);
std::vector<std::size_t> shape_of(const Handle& dataset, const std::string& name);
/// Returns true if the dataset is contiguous, little-endian float32.
bool holds_floats(const Handle& dataset);
/// Absolute names of all datasets below a group, in alphabetical order.
std::vector<std::string> dataset_names(const Handle& group);

void write_attribute(const Handle& at, const std::string& name, const std::string& value);
void write_attribute(const Handle& at, const std::string& name, std::int64_t value);
void write_real_attribute(const Handle& at, const std::string& name, double value);  ///< float64
/// A string of fixed length, which can be written again later with another string that is not longer.
void write_fixed_attribute(const Handle& at, const std::string& name, const std::string& value);

// Files may come from anywhere. Before anything is read, type class, number of elements and place in the file are checked;
// bad_input() names the attribute or dataset if they are not as required. Strings may have fixed or variable length.
std::string text_attribute(const Handle& at, const std::string& name);
std::int64_t number_attribute(const Handle& at, const std::string& name);
/// All attributes that are strings.
std::map<std::string, std::string> text_attributes(const Handle& at);
/// All attributes that are floating-point numbers.
std::map<std::string, double> real_attributes(const Handle& at);

/// The type of UTF-8 strings of any length; h5py reads them as str.
Handle text_type();

/// text: a scalar dataset with one string. texts: a 1-D dataset of strings.
void write_text(const Handle& at, const std::string& name, const std::string& value);
std::string read_text(const Handle& at, const std::string& name);
void write_texts(const Handle& at, const std::string& name, const std::vector<std::string>& values);
std::vector<std::string> read_texts(const Handle& at, const std::string& name);
/// A 1-D dataset of byte strings of variable length; they may contain zeros. Datasets of strings are read, too.
std::vector<std::string> read_byte_strings(const Handle& at, const std::string& name);

}  // namespace hdf5
}  // namespace shoal::io
