// SPDX-License-Identifier: Apache-2.0
// How HDF5 reaches files here: by a driver of our own, over io/files.hpp.
//
// [Note: HDF5 is not told of failed writes] A write, a truncation or a close that fails leaves HDF5 1.10 with objects that
// it can neither write nor forget: it crashes when it tries again, at the latest in its exit handler (which MPI_Finalize
// runs too). So the driver keeps the first such failure to itself, writes nothing more to that file, and lets the library
// believe that all is well; whoever writes asks for the failure at each flush and at the end (hdf5::flush,
// hdf5::close_file).
#pragma once

#include <memory>
#include <optional>

#include "shoal/base/error.hpp"
#include "shoal/io/hdf5.hpp"

namespace shoal::io {
class File;
}

namespace shoal::io::hdf5 {

/// Sets the driver in file access properties.
void use_driver(const Handle& access);

/// Why the last file could not be opened; nothing where the driver did open it, and the library refused what is in it.
std::optional<Error> open_failure();

/// The file under a file handle, open as long as that.
const File& driver_file(const Handle& file);

/// What keeps the content of an open file from being in it; also after it was closed.
std::shared_ptr<const std::optional<Error>> write_failure(const Handle& file);

}  // namespace shoal::io::hdf5
