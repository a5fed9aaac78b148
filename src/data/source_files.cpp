// SPDX-License-Identifier: Apache-2.0
#include "source_files.hpp"

#include <glob.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <sstream>

#include "shoal/base/error.hpp"
#include "shoal/base/pump.hpp"
#include "shoal/io/hdf5.hpp"

namespace shoal::data {

namespace {

constexpr std::size_t block_bytes = std::size_t{4} << 20U;

bool exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

std::vector<std::string> matches(const std::string& option, const std::string& pattern) {
  glob_t found{};
  const std::unique_ptr<glob_t, decltype(&globfree)> owner(&found, globfree);
  const int status = glob(pattern.c_str(), 0, nullptr, &found);
  require_input(status == 0 || status == GLOB_NOMATCH, option, ": ", pattern, ": ", std::strerror(errno));
  require_input(found.gl_pathc > 0, option, ": no file matches ", pattern);
  return {found.gl_pathv, found.gl_pathv + found.gl_pathc};
}

/// A path that exists is taken literally, even if it contains the characters of lists and patterns.
std::vector<std::string> expand(const std::string& option, const std::string& source) {
  if (exists(source)) return {source};
  std::vector<std::string> paths;
  std::istringstream list(source);
  for (std::string item; std::getline(list, item, ',');) {
    const std::size_t begin = item.find_first_not_of(" \t"), end = item.find_last_not_of(" \t");
    require_input(begin != std::string::npos, option, " = ", source, ": an empty name in the list");
    item = item.substr(begin, end - begin + 1);
    if (exists(item) || item.find_first_of("*?[") == std::string::npos) {
      paths.push_back(item);
    } else {
      const std::vector<std::string> found = matches(option, item);
      paths.insert(paths.end(), found.begin(), found.end());
    }
  }
  require_input(!paths.empty(), option, ": no file is named");
  return paths;
}

void check_file(const std::string& option, const std::string& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  require_input(std::filesystem::exists(status), option, ": ", path, ": no such file");
  require_input(!std::filesystem::is_directory(status), option, ": ", path,
                ": is a directory; a pattern names its files: ", path, "/*.txt");
  require_input(std::filesystem::is_regular_file(status), option, ": ", path, ": not a regular file");
  errno = 0;
  require_input(std::ifstream(path, std::ios::binary).is_open(), option, ": ", path,
                ": cannot be read: ", std::strerror(errno));
  require_input(std::filesystem::file_size(path) > 0, option, ": ", path, ": empty");
}

/// Number of bytes at the end of the text that begin a character and do not complete it.
std::size_t unfinished(std::string_view text) {
  for (std::size_t back = 1; back <= std::min<std::size_t>(3, text.size()); ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if ((byte & 0xC0U) == 0x80U) continue;  // inside a character
    const std::size_t length = byte >= 0xF0U ? 4 : byte >= 0xE0U ? 3 : byte >= 0xC0U ? 2 : 1;
    return length > back ? back : 0;
  }
  return 0;
}

}  // namespace

std::vector<std::filesystem::path> find_files(const std::string& option, const std::string& source) {
  const std::vector<std::string> paths = expand(option, source);
  for (const std::string& path : paths) check_file(option, path);
  return {paths.begin(), paths.end()};
}

bool are_token_files(const std::string& option, const std::vector<std::filesystem::path>& files) {
  const bool first = io::is_hdf5(files.front());
  for (const std::filesystem::path& file : files) {
    require_input(io::is_hdf5(file) == first, option, ": ", files.front().string(), first ? " is HDF5, " : " is text, ",
                  file.string(), " is not; all must be of one kind");
  }
  return first;
}

void for_each_block(const std::filesystem::path& file,
                    const std::function<void(std::string_view block, std::size_t offset)>& handle) {
  std::ifstream in(file, std::ios::binary);
  std::string block(block_bytes, '\0');
  std::size_t kept = 0, offset = 0;
  while (in) {
    in.read(block.data() + kept, static_cast<std::streamsize>(block_bytes - kept));
    const std::size_t filled = kept + static_cast<std::size_t>(in.gcount());
    const std::string_view text(block.data(), filled);
    kept = in.eof() ? 0 : unfinished(text);
    if (filled > kept) handle(text.substr(0, filled - kept), offset);
    offset += filled - kept;
    block.replace(0, kept, block, filled - kept, kept);
    pump();
  }
  require(in.eof(), file.string(), ": cannot be read at byte ", offset);
}

std::string name_of(const std::vector<std::filesystem::path>& files) {
  return files.size() == 1 ? files.front().filename().string() : text(files.size(), " files");
}

std::size_t bytes_of(const std::vector<std::filesystem::path>& files) {
  std::size_t bytes = 0;
  for (const std::filesystem::path& file : files) bytes += std::filesystem::file_size(file);
  return bytes;
}

}  // namespace shoal::data
