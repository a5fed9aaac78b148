// SPDX-License-Identifier: Apache-2.0
// Attributes and strings: numbers, texts, lists of texts.
#include <hdf5.h>

#include <algorithm>

#include "io/hdf5/hdf5_checks.hpp"
#include "shoal/base/error.hpp"
#include "shoal/io/hdf5.hpp"

namespace shoal::io::hdf5 {

namespace {

Handle scalar_space() { return {H5Screate(H5S_SCALAR), H5Sclose, "HDF5: scalar_space space"}; }

/// An open attribute with its type and its dataspace.
struct Attribute {
  Handle handle, type, space;
  std::string what;
};

Attribute open_attribute(const Handle& at, const std::string& name) {
  Attribute a;
  a.what = "attribute " + name;
  a.handle = {H5Aopen(at.id(), name.c_str(), H5P_DEFAULT), H5Aclose, a.what};
  a.type = {H5Aget_type(a.handle.id()), H5Tclose, a.what};
  a.space = {H5Aget_space(a.handle.id()), H5Sclose, a.what};
  return a;
}

bool is_one(const Attribute& a) { return H5Sget_simple_extent_npoints(a.space.id()) == 1; }

int fetch_attribute(Id object, Id type, void* data) { return H5Aread(object, type, data); }
int fetch_dataset(Id object, Id type, void* data) { return H5Dread(object, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data); }

std::string text_of(const Attribute& a) {
  require_input(is_one(a), a.what, ": not one string");
  return text_values(a.handle, a.type, fetch_attribute, 1, a.what).front();
}

std::vector<std::string> attribute_names(const Handle& at) {
  std::vector<std::string> names;
  const auto visit = [](hid_t, const char* name, const H5A_info_t*, void* data) -> herr_t {
    auto& found = *static_cast<std::vector<std::string>*>(data);
    found.emplace_back(name);
    return found.size() > most_attributes ? 1 : 0;
  };
  checked(H5Aiterate2(at.id(), H5_INDEX_NAME, H5_ITER_INC, nullptr, visit, &names), "list of attributes");
  require_input(names.size() <= most_attributes, "more than ", most_attributes, " attributes");
  return names;
}

/// Creates an attribute with one value.
void write_number(const Handle& at, const std::string& name, Id stored, Id type, const void* value) {
  const Handle space = scalar_space();
  const Handle attribute(H5Acreate2(at.id(), name.c_str(), stored, space.id(), H5P_DEFAULT, H5P_DEFAULT), H5Aclose,
                         "attribute " + name);
  checked(H5Awrite(attribute.id(), type, value), "attribute " + name);
}

}  // namespace

Handle text_type() {
  Handle type(H5Tcopy(H5T_C_S1), H5Tclose, "HDF5: string type");
  checked(H5Tset_size(type.id(), H5T_VARIABLE), "HDF5: string type");
  checked(H5Tset_cset(type.id(), H5T_CSET_UTF8), "HDF5: string type");
  return type;
}

void write_attribute(const Handle& at, const std::string& name, const std::string& value) {
  const Handle type = text_type(), space = scalar_space();
  const Handle attribute(H5Acreate2(at.id(), name.c_str(), type.id(), space.id(), H5P_DEFAULT, H5P_DEFAULT), H5Aclose,
                         "attribute " + name);
  const char* data = value.c_str();
  checked(H5Awrite(attribute.id(), type.id(), &data), "attribute " + name);
}

void write_attribute(const Handle& at, const std::string& name, std::int64_t value) {
  if (!has_attribute(at, name)) return write_number(at, name, H5T_STD_I64LE, H5T_NATIVE_INT64, &value);
  checked(H5Awrite(open_attribute(at, name).handle.id(), H5T_NATIVE_INT64, &value), "attribute " + name);
}

void write_real_attribute(const Handle& at, const std::string& name, double value) {
  write_number(at, name, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, &value);
}

void write_fixed_attribute(const Handle& at, const std::string& name, const std::string& value) {
  Handle type(H5Tcopy(H5T_C_S1), H5Tclose, "HDF5: string type");
  checked(H5Tset_size(type.id(), value.size()), "HDF5: string type");
  checked(H5Tset_strpad(type.id(), H5T_STR_NULLPAD), "HDF5: string type");
  if (!has_attribute(at, name)) return write_number(at, name, type.id(), type.id(), value.data());
  checked(H5Awrite(open_attribute(at, name).handle.id(), type.id(), value.data()), "attribute " + name);
}

std::string text_attribute(const Handle& at, const std::string& name) { return text_of(open_attribute(at, name)); }

std::int64_t number_attribute(const Handle& at, const std::string& name) {
  const Attribute a = open_attribute(at, name);
  require_input(H5Tget_class(a.type.id()) == H5T_INTEGER && is_one(a), a.what, ": not one integer");
  std::int64_t value = 0;
  checked(H5Aread(a.handle.id(), H5T_NATIVE_INT64, &value), a.what);
  return value;
}

std::map<std::string, std::string> text_attributes(const Handle& at) {
  std::map<std::string, std::string> result;
  for (const std::string& name : attribute_names(at)) {
    const Attribute a = open_attribute(at, name);
    if (H5Tget_class(a.type.id()) == H5T_STRING) result[name] = text_of(a);
  }
  return result;
}

std::map<std::string, double> real_attributes(const Handle& at) {
  std::map<std::string, double> result;
  for (const std::string& name : attribute_names(at)) {
    const Attribute a = open_attribute(at, name);
    if (H5Tget_class(a.type.id()) != H5T_FLOAT) continue;
    require_input(is_one(a), a.what, ": not one number");
    checked(H5Aread(a.handle.id(), H5T_NATIVE_DOUBLE, &result[name]), a.what);
  }
  return result;
}

void write_text(const Handle& at, const std::string& name, const std::string& value) {
  const Handle type = text_type(), space = scalar_space();
  const Handle dataset(H5Dcreate2(at.id(), name.c_str(), type.id(), space.id(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
                       H5Dclose, name);
  const char* data = value.c_str();
  checked(H5Dwrite(dataset.id(), type.id(), H5S_ALL, H5S_ALL, H5P_DEFAULT, &data), name);
}

std::string read_text(const Handle& at, const std::string& name) {
  const Handle dataset = open_dataset(at, name), type(H5Dget_type(dataset.id()), H5Tclose, name);
  require_input(shape_of(dataset, name).empty(), name, ": not a single string");
  require_stored(dataset, name);
  return text_values(dataset, type, fetch_dataset, 1, name).front();
}

void write_texts(const Handle& at, const std::string& name, const std::vector<std::string>& values) {
  const hsize_t size = values.size();
  const Handle type = text_type(), space(H5Screate_simple(1, &size, nullptr), H5Sclose, name);
  const Handle dataset(H5Dcreate2(at.id(), name.c_str(), type.id(), space.id(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
                       H5Dclose, name);
  std::vector<const char*> data;
  data.reserve(values.size());
  for (const std::string& value : values) data.push_back(value.c_str());
  if (!data.empty()) checked(H5Dwrite(dataset.id(), type.id(), H5S_ALL, H5S_ALL, H5P_DEFAULT, data.data()), name);
}

std::vector<std::string> read_texts(const Handle& at, const std::string& name) {
  const Handle dataset = open_dataset(at, name), type(H5Dget_type(dataset.id()), H5Tclose, name);
  const std::vector<std::size_t> shape = shape_of(dataset, name);
  require_input(shape.size() == 1, name, ": not a list of strings");
  require_stored(dataset, name);
  return text_values(dataset, type, fetch_dataset, shape[0], name);
}

std::vector<std::string> read_byte_strings(const Handle& at, const std::string& name) {
  const Handle dataset = open_dataset(at, name), type(H5Dget_type(dataset.id()), H5Tclose, name);
  const std::vector<std::size_t> shape = shape_of(dataset, name);
  require_input(shape.size() == 1, name, ": ", shape.size(), " dimensions instead of 1");
  require_stored(dataset, name);
  if (H5Tget_class(type.id()) == H5T_STRING) return text_values(dataset, type, fetch_dataset, shape[0], name);
  require_input(H5Tget_class(type.id()) == H5T_VLEN, name, ": not of variable length; allowed: vlen of uint8, strings");
  const Handle base(H5Tget_super(type.id()), H5Tclose, name);
  require_input(H5Tget_class(base.id()) == H5T_INTEGER && H5Tget_size(base.id()) == 1, name, ": its elements are not uint8");
  require_input(shape[0] <= most_texts, name, ": ", shape[0], " entries; allowed: up to ", most_texts);
  return variable_values(dataset, fetch_dataset, shape[0], name);
}

}  // namespace shoal::io::hdf5
