// SPDX-License-Identifier: Apache-2.0
#include "io/hdf5/hdf5_driver.hpp"

#include <hdf5.h>
#if H5_VERSION_GE(1, 13, 0)
#include <H5FDdevelop.h>
#endif

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

namespace shoal::io::hdf5 {

namespace {

using Failure = std::optional<Error>;

/// The library sees the base class only, and passes it back with every call.
struct OpenFile : H5FD_t {
  File file;
  FileId id;
  std::uint64_t end = 0;  // size of the file
  haddr_t allocated = 0;  // end of the addresses that the library has allocated
  std::shared_ptr<Failure> failure = std::make_shared<Failure>();
  std::vector<std::byte> placeholder;   // data that are not written, but only get a place
  std::optional<std::uint64_t> placed;  // the place that they got
};

Failure& last_open() {
  static Failure failure;
  return failure;
}

std::optional<SystemError>& failed_call() {
  static std::optional<SystemError> failure;
  return failure;
}

OpenFile& of(H5FD_t* file) { return *static_cast<OpenFile*>(file); }
const OpenFile& of(const H5FD_t* file) { return *static_cast<const OpenFile*>(file); }

/// Runs `act` and returns its error: no exception may pass through the library.
template <typename Act>
Failure failure_of(Act&& act) {
  try {
    act();
    return std::nullopt;
  } catch (const SystemError& error) {
    failed_call() = error;
    return error;
  } catch (const Error& error) {
    return error;
  } catch (const std::exception& error) {
    return Error(Exit::failed, Seen::here, error.what());
  }
}

/// Changes the file unless an earlier change failed. Always reports success to the library ([Note] in the header).
template <typename Change>
herr_t change(OpenFile& to, Change&& act) {
  if (!*to.failure) *to.failure = failure_of(act);
  return 0;
}

File::Mode mode_of(unsigned flags) {
  if ((flags & H5F_ACC_EXCL) != 0) return File::Mode::create_new;
  if ((flags & H5F_ACC_TRUNC) != 0) return File::Mode::create;
  return (flags & H5F_ACC_RDWR) != 0 ? File::Mode::write : File::Mode::read;
}

/// Is a file being created?
bool& creating() {
  static bool now = false;
  return now;
}

H5FD_t* open(const char* name, unsigned flags, hid_t /*access*/, haddr_t /*most*/) {
  if (creating() && (flags & (H5F_ACC_TRUNC | H5F_ACC_EXCL)) == 0) return nullptr;
  std::unique_ptr<OpenFile> opened;
  failed_call().reset();
  last_open() = failure_of([&] {
    opened = std::make_unique<OpenFile>();
    opened->file = File(name, mode_of(flags));
    opened->id = opened->file.id();
    opened->end = opened->file.size();
  });
  return last_open() ? nullptr : opened.release();
}

herr_t close(H5FD_t* file) {
  change(of(file), [&] { of(file).file.close(); });
  delete &of(file);
  return 0;
}

int compare(const H5FD_t* a, const H5FD_t* b) {
  const FileId one = of(a).id, other = of(b).id;
  return one < other ? -1 : other < one ? 1 : 0;
}

herr_t query(const H5FD_t* /*file*/, unsigned long* flags) {
  if (flags != nullptr) {
    *flags =
        H5FD_FEAT_AGGREGATE_METADATA | H5FD_FEAT_ACCUMULATE_METADATA | H5FD_FEAT_DATA_SIEVE | H5FD_FEAT_AGGREGATE_SMALLDATA;
  }
  return 0;
}

haddr_t allocated(const H5FD_t* file, H5FD_mem_t /*type*/) { return of(file).allocated; }

herr_t set_allocated(H5FD_t* file, H5FD_mem_t /*type*/, haddr_t end) {
  of(file).allocated = end;
  return 0;
}

haddr_t end_of_file(const H5FD_t* file, H5FD_mem_t /*type*/) { return of(file).end; }

herr_t handle(H5FD_t* file, hid_t /*access*/, void** result) {
  *result = &of(file);
  return 0;
}

/// Bytes between the end of the file and the end of the allocated addresses read as zeros.
herr_t read(H5FD_t* file, H5FD_mem_t /*type*/, hid_t /*transfer*/, haddr_t at, size_t bytes, void* data) {
  OpenFile& from = of(file);
  const Failure failure = failure_of([&] {
    require(at <= from.allocated && bytes <= from.allocated - at, from.file.path().string(), ": ", bytes, " bytes at ", at,
            " are beyond its end");
    if (at + bytes > from.end) from.end = from.file.size();
    const std::size_t there = at < from.end ? std::min<std::uint64_t>(bytes, from.end - at) : 0;
    const Span<std::byte> all(static_cast<std::byte*>(data), bytes);
    from.file.read(at, all.first(there));
    std::fill(all.begin() + static_cast<std::ptrdiff_t>(there), all.end(), std::byte{0});
  });
  if (!failure) return 0;
  H5Epush2(H5E_DEFAULT, __FILE__, __func__, __LINE__, H5E_ERR_CLS, H5E_IO, H5E_READERROR, "%s", failure->what());
  return -1;
}

herr_t write(H5FD_t* file, H5FD_mem_t /*type*/, hid_t /*transfer*/, haddr_t at, size_t bytes, const void* data) {
  OpenFile& to = of(file);
  if (data == to.placeholder.data() && data != nullptr) {
    to.placed = at;
    return 0;
  }
  return change(to, [&] {
    to.file.write(at, {static_cast<const std::byte*>(data), bytes});
    to.end = std::max<std::uint64_t>(to.end, at + bytes);
  });
}

herr_t truncate(H5FD_t* file, hid_t /*transfer*/, hbool_t /*closing*/) {
  OpenFile& to = of(file);
  if (to.end == to.allocated) return 0;
  return change(to, [&] {
    to.file.truncate(to.allocated);
    to.end = to.allocated;
  });
}

hid_t registered() {
  static const H5FD_class_t driver = [] {
    constexpr H5FD_mem_t map[] = H5FD_FLMAP_DICHOTOMY;
    H5FD_class_t c{};
#if H5_VERSION_GE(1, 13, 0)
    c.version = H5FD_CLASS_VERSION;
    c.value = static_cast<H5FD_class_value_t>(500);  // from the range for drivers outside the library
#endif
    c.name = "shoal";
    c.maxaddr = std::numeric_limits<std::int64_t>::max();
    c.fc_degree = H5F_CLOSE_STRONG;
    c.open = open;
    c.close = close;
    c.cmp = compare;
    c.query = query;
    c.get_eoa = allocated;
    c.set_eoa = set_allocated;
    c.get_eof = end_of_file;
    c.get_handle = handle;
    c.read = read;
    c.write = write;
    c.truncate = truncate;
    std::copy(std::begin(map), std::end(map), c.fl_map);
    return c;
  }();
  static const hid_t id = checked(H5FDregister(&driver), "HDF5: driver");
  return id;
}

OpenFile& opened(const Handle& file) {
  void* found = nullptr;
  checked(H5Fget_vfd_handle(file.id(), H5P_DEFAULT, &found), "HDF5: driver of a file");
  return *static_cast<OpenFile*>(found);
}

}  // namespace

Creating::Creating() { creating() = true; }
Creating::~Creating() { creating() = false; }

void use_driver(const Handle& access) { checked(H5Pset_driver(access.id(), registered(), nullptr), "HDF5: driver"); }

std::optional<Error> open_failure() { return last_open(); }

void throw_failed_call() {
  if (const auto failure = std::exchange(failed_call(), std::nullopt)) throw SystemError(*failure);
}

const File& driver_file(const Handle& file) { return opened(file).file; }

std::uint64_t place_chunk(const Handle& file, const Handle& dataset, std::uint64_t row, std::size_t bytes,
                          const std::string& name) {
  OpenFile& to = opened(file);
  const hsize_t first = row;
  if (to.placeholder.size() < bytes) to.placeholder.resize(bytes);
  to.placed.reset();
  checked(H5Dwrite_chunk(dataset.id(), H5P_DEFAULT, 0, &first, bytes, to.placeholder.data()), name);
  require(to.placed.has_value(), name, ": the chunk of row ", row, " has no place in the file");
  return *to.placed;
}

std::shared_ptr<const std::optional<Error>> write_failure(const Handle& file) { return opened(file).failure; }

}  // namespace shoal::io::hdf5
