// SPDX-License-Identifier: Apache-2.0
#include "shoal/io/file_kind.hpp"

#include "io/hdf5/seal.hpp"
#include "shoal/base/error.hpp"
#include "shoal/io/hdf5.hpp"

namespace shoal::io {

FileKind file_kind(const std::filesystem::path& file) {
  const std::filesystem::file_status status = std::filesystem::status(file);
  require_input(std::filesystem::exists(status), file.string(), ": no such file");
  require_input(std::filesystem::is_regular_file(status) && is_hdf5(file), file.string(),
                ": not an HDF5 file; allowed: a checkpoint, a trace, a tokens file");
  find_seal(file);  // before HDF5 sees it
  const hdf5::Handle opened = hdf5::open_file(file);
  // Nodes that differed when they were saved have their parameters below /nodes.
  if (hdf5::has_link(opened, "parameters") || hdf5::has_link(opened, "nodes")) return FileKind::checkpoint;
  if (hdf5::has_link(opened, "events") && hdf5::has_link(opened, "flushes")) return FileKind::trace;
  if (hdf5::has_link(opened, "tokens") || hdf5::has_link(opened, "samples")) return FileKind::tokens;
  bad_input(file.string(),
            ": neither a checkpoint (/parameters) nor a trace (/events, /flushes) nor a tokens file (/tokens, /samples)");
}

}  // namespace shoal::io
