// SPDX-License-Identifier: Apache-2.0
// Which files may be overwritten. One rule for all that the program writes: an empty file, and, if the user allowed it, a
// file of the same kind that this program wrote, recognized by its content. Any other file is left as it is.
//
// A file that must be complete or absent is first written as NAME.partial. That name belongs to the program: a file there
// was left by a killed run and is removed. A link is removed, too, and never followed.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "shoal/io/file_kind.hpp"

namespace shoal::io {

/// A kind of file that the program writes.
struct OwnKind {
  std::string name;  ///< "trace"
  /// Returns true if a regular file, which is not empty, is of this kind. An exception also means that it is not.
  std::function<bool(const std::filesystem::path&)> recognizes;
};
OwnKind own_kind(FileKind kind);  ///< "trace", "checkpoint", "tokens file"
OwnKind own_weights();            ///< safetensors files that this program wrote

bool is_own(const std::filesystem::path& file, const OwnKind& kind);

/// Returns true if the file begins as HDF5 and cannot be opened. Under a name of ours, a killed run has left it.
bool is_torn(const std::filesystem::path& file);

/// bad_input() unless a file may be written under this name: if nothing is there, or an empty regular file, or, with
/// `overwrite`, a file of this kind. option: begins the message ("--output "). allowed: the option that allows to overwrite.
void require_target(const std::string& option, const std::filesystem::path& file, const OwnKind& kind, bool overwrite,
                    const std::string& allowed = "--output.overwrite");

/// The same, and removes the file that will be replaced.
void clear_target(const std::string& option, const std::filesystem::path& file, const OwnKind& kind, bool overwrite);

/// Returns why no file can be written into this directory, or why it cannot be created; empty if it can. Changes nothing.
std::string why_not_writable(const std::filesystem::path& directory);

/// Creates the directory if it does not exist, and a file in it, which is removed again. bad_input() that begins with
/// `option` if one of them cannot be created.
void make_writable(const std::string& option, const std::filesystem::path& directory);

}  // namespace shoal::io
