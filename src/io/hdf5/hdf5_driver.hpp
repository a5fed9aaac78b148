// SPDX-License-Identifier: Apache-2.0
// The driver by which HDF5 reads and writes files here, built on src/io/files/files.hpp.
//
// [Note: HDF5 does not learn of failed writes] If a write, a truncation or a close fails, HDF5 1.10 keeps objects that it
// can neither write nor discard. It crashes when it tries again, at the latest in its exit handler (which MPI_Finalize also
// runs). So the driver stores the first such failure, writes nothing more to that file, and reports success to the library.
// Code that writes must check for the failure at each flush and at the end; hdf5::flush() and hdf5::close_file() do.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "io/files/files.hpp"
#include "shoal/base/error.hpp"
#include "shoal/io/hdf5.hpp"

namespace shoal::io::hdf5 {

/// Sets the driver in file access properties.
void use_driver(const Handle& access);

/// To be held while the library creates a file. It first tries to open what has the file's name, to compare it with files
/// that it has open; the driver then reports at once that there is none, since it never creates a file that exists.
class Creating {
 public:
  Creating();
  ~Creating();
  Creating(const Creating&) = delete;
  Creating& operator=(const Creating&) = delete;
};

/// Why the driver could not open the last file; nothing if it could, and the library refused the content.
std::optional<Error> open_failure();

/// Throws the error of the last call of the system that failed in the driver since a file was opened; returns if there is
/// none. To be called when the library reports an error: it reports a damaged file in the same way.
void throw_failed_call();

/// The file of a file handle; open as long as the handle is.
const File& driver_file(const Handle& file);

/// Gives the chunk that begins with this row, of a dataset with one dimension, a place of `bytes` bytes in the file, and
/// returns its offset. Other ranks write the chunk there; HDF5's own write of it is not carried out.
std::uint64_t place_chunk(const Handle& file, const Handle& dataset, std::uint64_t row, std::size_t bytes,
                          const std::string& name);

/// The first write to an open file that failed, if any. Remains valid after the file was closed.
std::shared_ptr<const std::optional<Error>> write_failure(const Handle& file);

}  // namespace shoal::io::hdf5
