// SPDX-License-Identifier: Apache-2.0
#include "shoal/io/text_file.hpp"

#include <sys/stat.h>

#include <cerrno>
#include <fstream>

#include "io/files/files.hpp"
#include "shoal/base/error.hpp"

namespace shoal::io {

namespace fs = std::filesystem;

namespace {

Span<const std::byte> bytes(const std::string& content) { return std::as_bytes(Span<const char>(content)); }

fs::path temporary_of(const fs::path& file) { return file.string() + ".partial"; }

/// Writes what `fill` writes under the temporary name, then renames it. On an error the temporary file is removed.
template <typename Fill>
File written(const fs::path& file, const Fill& fill) {
  File temporary(temporary_of(file), File::Mode::create);
  try {
    fill(temporary);
    temporary.sync();
    commit_file(temporary_of(file), file);
  } catch (...) {
    std::error_code ignored;
    fs::remove(temporary_of(file), ignored);
    throw;
  }
  temporary.renamed(file);
  return temporary;
}

}  // namespace

bool is_stream(const fs::path& file) {
  std::error_code error;
  const fs::file_status status = fs::status(file, error);
  const std::string name = file.string();
  return fs::is_character_file(status) || fs::is_fifo(status) || fs::is_socket(status) || name.starts_with("/dev/fd/") ||
         name == "/dev/stdout" || name == "/dev/stderr";
}

void write_text_file(const fs::path& file, const std::string& content) {
  if (!is_stream(file)) {
    written(file, [&](File& to) { to.write(0, bytes(content)); }).close();
    return;
  }
  std::ofstream out(file);
  out << content;
  out.flush();
  require(out.good(), file.string(), ": cannot be written");
}

std::string read_text_file(const fs::path& file) {
  const File in(file, File::Mode::read);
  std::string content(in.size(), '\0');
  in.read(0, std::as_writable_bytes(Span<char>(content)));
  return content;
}

struct LineFile::State {
  File file;
  std::uint64_t size = 0, last = 0;  // in bytes; where the last line begins
};

LineFile::LineFile() = default;
LineFile::~LineFile() = default;
LineFile::LineFile(LineFile&&) noexcept = default;
LineFile& LineFile::operator=(LineFile&&) noexcept = default;

LineFile::LineFile(const fs::path& file, const std::function<void(const Add&)>& lines) : state_(std::make_unique<State>()) {
  constexpr std::size_t most_at_once = 1U << 16U;
  std::string part;
  state_->file = written(file, [&](File& to) {
    const auto write = [&] {
      to.write(state_->size, bytes(part));
      state_->size += part.size();
      part.clear();
    };
    lines([&](const std::string& line) {
      part += line + "\n";
      if (part.size() >= most_at_once) write();
    });
    write();
  });
}

bool LineFile::is_open() const { return state_ != nullptr; }

void LineFile::append(const std::string& line) {
  const std::string content = line + "\n";
  state_->file.write(state_->size, bytes(content));
  state_->last = state_->size;
  state_->size += content.size();
}

void LineFile::replace_last(const std::string& line) {
  const std::string content = line + "\n";
  require(state_->last + content.size() >= state_->size, "a line of ", content.size(), " bytes replaces a longer one");
  state_->file.write(state_->last, bytes(content));
  state_->size = state_->last + content.size();
}

void LineFile::sync() { state_->file.sync(); }

void LineFile::require_there() const { state_->file.require_there(); }

}  // namespace shoal::io
