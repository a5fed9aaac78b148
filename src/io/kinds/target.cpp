// SPDX-License-Identifier: Apache-2.0
#include "shoal/io/target.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <exception>

#include "io/files/files.hpp"
#include "shoal/base/error.hpp"
#include "shoal/io/hdf5.hpp"
#include "shoal/io/safetensors.hpp"

namespace shoal::io {

namespace fs = std::filesystem;

namespace {

bool is_empty_file(const fs::path& file) {
  std::error_code error;
  return fs::is_regular_file(fs::symlink_status(file, error)) && fs::file_size(file, error) == 0 && !error;
}

const char* name_of(FileKind kind) {
  switch (kind) {
    case FileKind::checkpoint: return "checkpoint";
    case FileKind::trace: return "trace";
    case FileKind::tokens: break;
  }
  return "tokens file";
}

}  // namespace

OwnKind own_kind(FileKind kind) {
  return {name_of(kind), [kind](const fs::path& file) { return file_kind(file) == kind; }};
}

OwnKind own_weights() { return {"safetensors file that this program wrote", is_our_safetensors}; }

bool is_own(const fs::path& file, const OwnKind& kind) {
  std::error_code error;
  if (!fs::is_regular_file(fs::symlink_status(file, error)) || is_empty_file(file)) return false;
  try {
    return kind.recognizes(file);
  } catch (const std::exception&) {
    return false;
  }
}

bool is_torn(const fs::path& file) {
  std::error_code error;
  if (!fs::is_regular_file(fs::symlink_status(file, error)) || !is_hdf5(file)) return false;
  try {
    const hdf5::Handle opened = hdf5::open_file(file);
    return false;
  } catch (const SystemError&) {
    throw;
  } catch (const Error&) {
    return true;
  }
}

void require_target(const std::string& option, const fs::path& file, const OwnKind& kind, bool overwrite,
                    const std::string& allowed) {
  std::error_code error;
  const fs::file_status status = fs::symlink_status(file, error);
  require_input(fs::status_known(status), option, file.string(), ": ", error.message());
  if (!fs::exists(status) || is_empty_file(file)) return;
  require_input(is_own(file, kind), option, file.string(), ": exists and is not a ", kind.name,
                ", so it is not overwritten; allowed: another name");
  require_input(overwrite, option, file.string(), ": exists; allowed: another name, or ", allowed);
}

void clear_target(const std::string& option, const fs::path& file, const OwnKind& kind, bool overwrite) {
  require_target(option, file, kind, overwrite);
  std::error_code error;
  fs::remove(file, error);
  require_input(!error, option, file.string(), ": cannot be removed: ", error.message());
}

std::string why_not_writable(const fs::path& directory) {
  fs::path there = fs::absolute(directory).lexically_normal();
  std::error_code error;
  while (!fs::exists(fs::status(there, error)) && there != there.root_path()) there = there.parent_path();
  if (!fs::is_directory(there, error)) return there.string() + " is not a directory";
  if (access(there.c_str(), W_OK | X_OK) != 0) return text(there.string(), ": ", std::strerror(errno));
  return "";
}

void make_writable(const std::string& option, const fs::path& directory) {
  std::error_code error;
  fs::create_directories(directory, error);
  require_input(!error && fs::is_directory(directory), option,
                ": cannot be created: ", error ? error.message() : directory.string() + " is not a directory");
  const fs::path probe = directory / text(".shoal-probe.", getpid());
  const int made = ::open(probe.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  require_input(made >= 0, option, ": not writable: ", std::strerror(errno));
  ::close(made);
  ::unlink(probe.c_str());
}

}  // namespace shoal::io
