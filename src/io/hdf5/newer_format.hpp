// SPDX-License-Identifier: Apache-2.0
// Files in formats that came after HDF5 1.8's: h5py writes them with libver="latest". HDF5 1.10 reads most of them.
#pragma once

#include <filesystem>

#include "io/files/files.hpp"
#include "shoal/base/error.hpp"

namespace shoal::io::hdf5 {

/// What to do about a file that the library refuses for this reason, as the end of a sentence; empty if its format is not
/// the cause.
std::string advice_on_format(const std::filesystem::path& file, const std::string& reason);

/// bad_input() if a program has opened the file for writing and not closed it, which files in newer formats tell: not all of
/// it may be there. HDF5's own drivers refuse it, too.
void require_closed(const File& file);

/// Returns what read() returns. If it fails because of the file's format, the error says what to do about it.
template <typename Read>
decltype(auto) with_advice_on_format(const std::filesystem::path& file, Read&& read) {
  try {
    return read();
  } catch (const SystemError&) {
    throw;
  } catch (const Error& error) {
    throw Error(error.code(), error.seen(), error.what() + advice_on_format(file, error.what()));
  }
}

}  // namespace shoal::io::hdf5
