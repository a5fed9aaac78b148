// SPDX-License-Identifier: Apache-2.0
#include "io/hdf5/hdf5_checks.hpp"

#include <hdf5.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "io/files/files.hpp"
#include "io/hdf5/global_heap.hpp"
#include "io/hdf5/hdf5_driver.hpp"
#include "io/hdf5/packed_chunk.hpp"
#include "shoal/base/error.hpp"

namespace shoal::io::hdf5 {

namespace {

constexpr std::size_t reference_bytes = 16;
constexpr std::size_t largest_chunk = std::size_t{1} << 30U;
constexpr std::size_t largest_inflation = 1032;  // bytes that one byte can become: zlib, "Maximum Compression Factor"

Handle file_of(const Handle& object) { return {H5Iget_file_id(object.id()), H5Fclose, "HDF5: file of an object"}; }

/// Conversion from a reference to a value of variable length, as the file stores it, to the same number of opaque bytes:
/// nothing to do.
herr_t keep_bytes(hid_t from, hid_t to, H5T_cdata_t* state, size_t /*count*/, size_t /*stride*/, size_t /*other*/,
                  void* /*data*/, void* /*background*/, hid_t /*transfer*/) {
  if (state->command != H5T_CONV_INIT) return 0;
  state->need_bkg = H5T_BKG_NO;
  return H5Tget_size(from) == reference_bytes && H5Tget_size(to) == reference_bytes ? 0 : -1;
}

Handle reference_type() {
  Handle type(H5Tcreate(H5T_OPAQUE, reference_bytes), H5Tclose, "HDF5: type of references");
  static const bool registered = [&] {
    const Handle variable(H5Tvlen_create(H5T_NATIVE_UINT8), H5Tclose, "HDF5: type of references");
    checked(H5Tregister(H5T_PERS_SOFT, "references", variable.id(), type.id(), keep_bytes), "HDF5: type of references");
    return true;
  }();
  static_cast<void>(registered);
  return type;
}

HeapReference reference_at(const std::byte* data) {
  std::uint32_t bytes = 0;
  HeapReference result;
  std::memcpy(&bytes, data, 4);
  std::memcpy(&result.collection, data + 4, 8);
  std::memcpy(&result.object, data + 12, 4);
  result.bytes = bytes;
  return result;
}

std::size_t product(const std::vector<std::size_t>& shape, std::size_t limit, const std::string& name) {
  std::size_t elements = 1;
  for (const std::size_t length : shape) {
    if (length == 0) return 0;
  }
  for (const std::size_t length : shape) {
    require_input(elements <= limit / length, name, ": more elements than a file can hold");
    elements *= length;
  }
  return elements;
}

}  // namespace

std::uint64_t file_bytes(const Handle& object) { return driver_file(file_of(object)).size(); }

void require_one(const Handle& space, const std::string& what) {
  require_input(H5Sget_simple_extent_npoints(space.id()) == 1, what, ": not one value");
}

std::vector<int> filters_of(const Handle& create, const std::string& name) {
  std::vector<int> filters;
  for (int i = 0; i < checked(H5Pget_nfilters(create.id()), name); ++i) {
    unsigned flags = 0;
    std::size_t values = 0;
    filters.push_back(
        checked(H5Pget_filter2(create.id(), static_cast<unsigned>(i), &flags, &values, nullptr, 0, nullptr, nullptr), name));
  }
  return filters;
}

void require_stored(const Handle& dataset, const std::string& name, Chunks chunks) {
  const Handle create(H5Dget_create_plist(dataset.id()), H5Pclose, name), type(H5Dget_type(dataset.id()), H5Tclose, name);
  const H5D_layout_t layout = H5Pget_layout(create.id());
  // The library would read zeros in the place of a virtual dataset's file that is missing.
  const bool here = H5Pget_external_count(create.id()) == 0 && layout != H5D_VIRTUAL;
  require_input(here, name, ": its data are in another file", layout == H5D_VIRTUAL ? " (a virtual dataset)" : "",
                "; allowed: data that are in this file, so copy them into it");
  const std::size_t elements = product(shape_of(dataset, name), std::size_t{1} << 60U, name);
  const std::uint64_t stored = H5Dget_storage_size(dataset.id());
  require_input(stored <= file_bytes(dataset), name, ": ", stored, " bytes, longer than the file; the file is damaged");
  if (layout == H5D_CHUNKED) {
    std::array<hsize_t, H5S_MAX_RANK> chunk{};
    const int dimensions = checked(H5Pget_chunk(create.id(), H5S_MAX_RANK, chunk.data()), name);
    const std::vector<std::size_t> shape(chunk.begin(), chunk.begin() + dimensions);
    require_input(product(shape, largest_chunk / H5Tget_size(type.id()), name) > 0, name, ": an empty chunk");
  }
  if (elements == 0) return;
  const std::vector<int> filters = filters_of(create, name);
  require_input(filters.empty() || layout == H5D_CHUNKED, name, ": filters of data that are not in chunks");
  for (const int filter : filters) {
    require_input(filter == H5Z_FILTER_SHUFFLE || filter == H5Z_FILTER_DEFLATE || filter == H5Z_FILTER_FLETCHER32, name,
                  ": filter ", filter, "; allowed: shuffle, deflate and fletcher32");
  }
  const bool deflated = std::find(filters.begin(), filters.end(), H5Z_FILTER_DEFLATE) != filters.end();
  require_input(elements <= stored * (deflated ? largest_inflation : 1) / H5Tget_size(type.id()), name, ": ", elements,
                " elements of which the file has ", stored, " bytes; it is damaged, or not all was written");
  if (chunks == Chunks::all && !filters.empty()) require_whole_chunks(dataset, 0, shape_of(dataset, name)[0], name);
}

std::vector<std::string> variable_values(const Handle& object, Fetch fetch, std::size_t count, const std::string& name) {
  const Handle file = file_of(object), create(H5Fget_create_plist(file.id()), H5Pclose, name);
  std::size_t address_bytes = 0, length_bytes = 0;
  checked(H5Pget_sizes(create.id(), &address_bytes, &length_bytes), name);
  require_input(address_bytes == 8 && length_bytes == 8, name, ": a file with addresses of ", address_bytes,
                " bytes; allowed: 8");
  const Handle type = reference_type();
  std::vector<std::byte> references(count * reference_bytes);
  if (count > 0) checked(fetch(object.id(), type.id(), references.data()), name);
  const File& source = driver_file(file);
  GlobalHeap heap(source.size(), [&](std::uint64_t at, Span<std::byte> to) { source.read(at, to); });
  std::vector<std::string> values;
  values.reserve(count);
  try {
    for (std::size_t i = 0; i < count; ++i) values.push_back(heap.value(reference_at(&references[i * reference_bytes])));
  } catch (const SystemError&) {
    throw;
  } catch (const Error& error) {
    bad_input(name, ": ", error.what());
  }
  return values;
}

std::vector<std::string> text_values(const Handle& object, const Handle& type, Fetch fetch, std::size_t count,
                                     const std::string& name) {
  require_input(H5Tget_class(type.id()) == H5T_STRING, name, ": not a string");
  require_input(count <= most_texts, name, ": ", count, " strings; allowed: up to ", most_texts);
  std::vector<std::string> values;
  if (H5Tis_variable_str(type.id()) > 0) {
    values = variable_values(object, fetch, count, name);
  } else {
    const std::size_t bytes = H5Tget_size(type.id());
    require_input(count == 0 || bytes <= file_bytes(object) / count, name, ": ", count, " strings of ", bytes,
                  " bytes are longer than the file");
    std::string all(count * bytes, '\0');
    if (count > 0) checked(fetch(object.id(), type.id(), all.data()), name);
    for (std::size_t i = 0; i < count; ++i) values.push_back(all.substr(i * bytes, bytes));
  }
  for (std::string& value : values) {
    value.resize(std::min(value.find('\0'), value.size()));
    require_input(value.size() <= longest_text, name, ": a string of ", value.size(), " bytes; allowed: up to ",
                  longest_text);
  }
  return values;
}

}  // namespace shoal::io::hdf5
