// SPDX-License-Identifier: Apache-2.0
// What may be written over, one rule for all that the program writes: a file of the same kind that the program wrote, known
// by its content, and only where the user said so; and an empty file. Everything else that stands under a name stays.
//
// Whatever is written complete-or-absent grows under NAME.partial. That name is the program's own: a file there is what a
// killed run left, and goes; a link goes too, and is never written through.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "shoal/io/file_kind.hpp"

namespace shoal::io {

/// A kind of file that the program writes.
struct OwnKind {
  std::string name;  ///< "trace"
  /// Whether a regular file, not empty, is one. What it throws means no.
  std::function<bool(const std::filesystem::path&)> recognizes;
};
OwnKind own_kind(FileKind kind);  ///< "trace", "checkpoint", "tokens file"
OwnKind own_weights();            ///< safetensors that this program wrote

bool is_own(const std::filesystem::path& file, const OwnKind& kind);

/// Whether it begins as HDF5 and cannot be opened: a name of ours with such content is what a killed run left.
bool is_torn(const std::filesystem::path& file);

/// bad_input() unless a file may be written under this name: there is nothing, or an empty regular file, or `overwrite` and
/// one of this kind. option leads the message ("--output "); allowed: what overwrites ("--output.overwrite").
void require_target(const std::string& option, const std::filesystem::path& file, const OwnKind& kind, bool overwrite,
                    const std::string& allowed = "--output.overwrite");

/// The same, and what is replaced is removed.
void clear_target(const std::string& option, const std::filesystem::path& file, const OwnKind& kind, bool overwrite);

/// Why files can not be written into this directory, or it can not be made; empty if they can. Changes nothing.
std::string why_not_writable(const std::filesystem::path& directory);

/// Makes the directory where it is absent, and a file in it, which goes again: bad_input() that begins with `option`.
void make_writable(const std::string& option, const std::filesystem::path& directory);

}  // namespace shoal::io
