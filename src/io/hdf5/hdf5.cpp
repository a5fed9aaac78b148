// SPDX-License-Identifier: Apache-2.0
#include "shoal/io/hdf5.hpp"

#include <hdf5.h>

#include <algorithm>
#include <array>
#include <type_traits>

#include "io/files/files.hpp"
#include "io/hdf5/hdf5_driver.hpp"
#include "io/hdf5/newer_format.hpp"
#include "shoal/base/error.hpp"

namespace shoal::io {

std::pair<std::string, std::string> library_version() {
  unsigned major = 0, minor = 0, release = 0;
  H5get_libversion(&major, &minor, &release);
#ifdef H5_HAVE_PARALLEL
  return {"HDF5", text(major, ".", minor, ".", release, " parallel")};
#else
  return {"HDF5", text(major, ".", minor, ".", release)};
#endif
}

bool is_hdf5(const std::filesystem::path& file) {
  constexpr std::array<char, 8> signature{'\x89', 'H', 'D', 'F', '\r', '\n', '\x1a', '\n'};
  const File opened(file, File::Mode::read);
  const std::uint64_t size = opened.size();
  // The format allows a user block in front of the signature, of 512 bytes times a power of two.
  for (std::uint64_t at = 0; at + signature.size() <= size; at = std::max<std::uint64_t>(2 * at, 512)) {
    std::array<char, signature.size()> found{};
    opened.read(at, std::as_writable_bytes(Span<char>(found)));
    if (found != signature) continue;
    require_input(at == 0, file.string(), ": an HDF5 file with a user block of ", at, " bytes; allowed: none");
    return true;
  }
  return false;
}

namespace hdf5 {

static_assert(std::is_same_v<hid_t, Id> && std::is_same_v<herr_t, int>);

namespace {

/// More than a checkpoint has of 96 blocks on ten thousand nodes that train locally.
constexpr std::size_t most_datasets = std::size_t{1} << 26U;

/// Turns off the library's printing of errors; they are thrown instead.
void silence() { H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr); }

/// Stands for the library's own following of an external link: fails, and says where the link leads. link: a byte of flags,
/// then the file's name and the object's, each with a zero behind it.
hid_t refuse_to_follow(const char* /*name*/, hid_t /*group*/, const void* link, std::size_t bytes, hid_t /*access*/,
                       hid_t /*transfer*/) {
  const std::string all(static_cast<const char*>(link), bytes);
  const std::string file = all.size() > 1 ? all.c_str() + 1 : "";
  H5Epush2(H5E_DEFAULT, __FILE__, __func__, __LINE__, H5E_ERR_CLS, H5E_LINK, H5E_TRAVERSE,
           "an external link into another file, %s; allowed: data that are in this file, so copy them into it",
           file.c_str());
  return H5I_INVALID_HID;
}

/// The offset of a dataset behind an external link is one of another file, which nobody has checked. So the library follows
/// none of them.
void refuse_external_links() {
  H5L_class_t external{};
  external.version = H5L_LINK_CLASS_T_VERS;
  external.id = H5L_TYPE_EXTERNAL;
  external.comment = "external links, which are refused";
  external.trav_func = refuse_to_follow;
  checked(H5Lregister(&external), "HDF5: external links");
}

/// newest: the newest format in which the file may be.
Handle access_properties(H5F_libver_t newest) {
  silence();
  refuse_external_links();
  Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, "HDF5: access properties");
  checked(H5Pset_libver_bounds(access.id(), H5F_LIBVER_V18, newest), "HDF5: format bounds");
  // Metadata are allocated in blocks of 64 KiB, not 2 KiB, between datasets. Large datasets begin on a page of 4096 bytes.
  checked(H5Pset_meta_block_size(access.id(), 1U << 16U), "HDF5: metadata block size");
  checked(H5Pset_alignment(access.id(), 1U << 16U, 4096), "HDF5: alignment");
  checked(H5Pset_fclose_degree(access.id(), H5F_CLOSE_STRONG), "HDF5: close degree");
  use_driver(access);
  return access;
}

Handle intermediate_groups() {
  Handle links(H5Pcreate(H5P_LINK_CREATE), H5Pclose, "HDF5: link properties");
  checked(H5Pset_create_intermediate_group(links.id(), 1), "HDF5: link properties");
  return links;
}

}  // namespace

Handle::Handle(Id id, Close closer, const std::string& what) : id_(checked(id, what)), close_(closer) {}
Handle::Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, -1)), close_(other.close_) {}

Handle& Handle::operator=(Handle&& other) noexcept {
  std::swap(id_, other.id_);
  std::swap(close_, other.close_);
  return *this;
}

Handle::~Handle() {
  if (id_ >= 0) close_(id_);
}

void Handle::close(const std::string& what) {
  if (id_ >= 0) checked(close_(std::exchange(id_, -1)), what);
}

std::string reason() {
  std::string found;
  const auto first = [](unsigned, const H5E_error2_t* error, void* data) -> herr_t {
    auto& description = *static_cast<std::string*>(data);
    if (description.empty() && error->desc != nullptr) description = error->desc;
    return 0;
  };
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, first, &found);
  std::replace(found.begin(), found.end(), '\n', ' ');
  return found.empty() ? "HDF5 gives no reason" : found;
}

namespace {

/// Whether something exists, from a result of HDF5 with three values. Throws if it is negative: the file is damaged.
bool found(int result) {
  if (result < 0) throw_failed_call();
  return result > 0;
}

}  // namespace

template <typename T>
T checked(T result, const std::string& what) {
  if (result >= 0) return result;
  throw_failed_call();
  fail(what, ": ", reason());
}
template int checked<int>(int, const std::string&);
template Id checked<Id>(Id, const std::string&);

Handle create_file(const std::filesystem::path& file, bool exclusive) {
  const Handle access = access_properties(H5F_LIBVER_V18);
  const Creating creating;
  const Id id = H5Fcreate(file.c_str(), exclusive ? H5F_ACC_EXCL : H5F_ACC_TRUNC, H5P_DEFAULT, access.id());
  if (id < 0 && open_failure()) throw *open_failure();
  return {id, H5Fclose, file.string() + ": cannot be created"};
}

namespace {

Handle open_as(const std::filesystem::path& file, unsigned flags) {
  // What is changed keeps a format that all read.
  const Handle access = access_properties(flags == H5F_ACC_RDONLY ? H5F_LIBVER_LATEST : H5F_LIBVER_V18);
  const Id id = H5Fopen(file.c_str(), flags, access.id());
  if (id < 0) throw_failed_call();
  if (id < 0 && open_failure()) throw *open_failure();
  return with_advice_on_format(file, [&] { return Handle(id, H5Fclose, file.string() + ": cannot be opened as HDF5"); });
}

}  // namespace

Handle open_file(const std::filesystem::path& file) { return open_as(file, H5F_ACC_RDONLY); }
Handle edit_file(const std::filesystem::path& file) { return open_as(file, H5F_ACC_RDWR); }

void flush(const Handle& file, const std::string& what) {
  checked(H5Fflush(file.id(), H5F_SCOPE_LOCAL), what);
  if (const auto failure = write_failure(file); *failure) throw Error(**failure);
}

void close_file(Handle& file, const std::string& what) {
  const auto failure = write_failure(file);
  file.close(what);
  if (*failure) throw Error(**failure);
}

Handle create_group(const Handle& at, const std::string& name) {
  return {H5Gcreate2(at.id(), name.c_str(), intermediate_groups().id(), H5P_DEFAULT, H5P_DEFAULT), H5Gclose, name};
}

Handle open_group(const Handle& at, const std::string& name) {
  return {H5Gopen2(at.id(), name.c_str(), H5P_DEFAULT), H5Gclose, name};
}

Handle open_dataset(const Handle& at, const std::string& name) {
  return {H5Dopen2(at.id(), name.c_str(), H5P_DEFAULT), H5Dclose, name};
}

bool has_attribute(const Handle& at, const std::string& name) { return found(H5Aexists(at.id(), name.c_str())); }
bool has_link(const Handle& at, const std::string& name) { return found(H5Lexists(at.id(), name.c_str(), H5P_DEFAULT)); }

Handle create_floats(const Handle& file, const std::string& name, const std::vector<std::size_t>& shape) {
  const std::vector<hsize_t> extent(shape.begin(), shape.end());
  const Handle space =
      shape.empty() ? Handle(H5Screate(H5S_SCALAR), H5Sclose, name)
                    : Handle(H5Screate_simple(static_cast<int>(extent.size()), extent.data(), nullptr), H5Sclose, name);
  const Handle create(H5Pcreate(H5P_DATASET_CREATE), H5Pclose, name);
  checked(H5Pset_layout(create.id(), H5D_CONTIGUOUS), name);
  checked(H5Pset_alloc_time(create.id(), H5D_ALLOC_TIME_EARLY), name);
  checked(H5Pset_fill_time(create.id(), H5D_FILL_TIME_NEVER), name);
  return {
      H5Dcreate2(file.id(), name.c_str(), H5T_IEEE_F32LE, space.id(), intermediate_groups().id(), create.id(), H5P_DEFAULT),
      H5Dclose, name};
}

std::uint64_t raw_offset(const Handle& dataset, const std::string& name) {
  if (H5Dget_storage_size(dataset.id()) == 0) return 0;
  const haddr_t offset = H5Dget_offset(dataset.id());
  require(offset != HADDR_UNDEF, name, ": no raw data in the file");
  return offset;
}

std::vector<std::size_t> shape_of(const Handle& dataset, const std::string& name) {
  const Handle space(H5Dget_space(dataset.id()), H5Sclose, name);
  std::vector<hsize_t> extent(static_cast<std::size_t>(checked(H5Sget_simple_extent_ndims(space.id()), name)));
  checked(H5Sget_simple_extent_dims(space.id(), extent.data(), nullptr), name);
  return {extent.begin(), extent.end()};
}

bool holds_floats(const Handle& dataset) {
  const Handle type(H5Dget_type(dataset.id()), H5Tclose, "dataset type");
  const Handle create(H5Dget_create_plist(dataset.id()), H5Pclose, "dataset properties");
  return H5Tequal(type.id(), H5T_IEEE_F32LE) > 0 && H5Pget_layout(create.id()) == H5D_CONTIGUOUS &&
         H5Pget_external_count(create.id()) == 0;
}

std::vector<std::string> dataset_names(const Handle& group) {
  std::vector<std::string> names;
  const auto visit = [](hid_t, const char* name, const H5O_info_t* info, void* data) -> herr_t {
    auto& found = *static_cast<std::vector<std::string>*>(data);
    if (info->type == H5O_TYPE_DATASET) found.push_back(std::string("/") + name);
    return found.size() > most_datasets ? 1 : 0;
  };
  checked(H5Ovisit2(group.id(), H5_INDEX_NAME, H5_ITER_INC, visit, &names, H5O_INFO_BASIC), "list of datasets");
  require_input(names.size() <= most_datasets, "more than ", most_datasets, " datasets");
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace hdf5
}  // namespace shoal::io
