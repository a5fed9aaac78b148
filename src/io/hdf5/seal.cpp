// SPDX-License-Identifier: Apache-2.0
#include "io/hdf5/seal.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "io/files/files.hpp"
#include "io/files/hash.hpp"
#include "shoal/base/error.hpp"
#include "shoal/io/hdf5.hpp"

namespace shoal::io {

namespace {

struct Footer {
  std::array<char, 16> magic{};
  std::uint64_t table_bytes = 0, metadata_hash = 0, seal_hash = 0;
};
static_assert(sizeof(Footer) == 40 && sizeof(Extent) == 16);

constexpr std::array<char, 16> magic = {'s', 'h', 'o', 'a', 'l', ' ', 's', 'e', 'a', 'l', ' ', '1', '\n', 0, 0, 0};
constexpr std::size_t magic_without_version = 11;

std::uint64_t hash_seal(Span<const Extent> table, const Footer& footer) {
  Hash hash;
  hash.update(std::as_bytes(table));
  hash.update(std::as_bytes(Span<const Footer>(&footer, 1)).first(sizeof(Footer) - sizeof(footer.seal_hash)));
  return hash.value();
}

/// Hash of all bytes before `end` that no extent covers. The extents must be sorted; if they overlap, bad_input().
std::uint64_t hash_metadata(const File& file, std::uint64_t end, Span<const Extent> raw) {
  Hash hash;
  std::vector<std::byte> buffer(std::size_t{1} << 20U);
  std::uint64_t at = 0;
  const auto hash_until = [&](std::uint64_t stop) {
    while (at < stop) {
      const auto part = Span<std::byte>(buffer).first(std::min<std::uint64_t>(buffer.size(), stop - at));
      file.read(at, part);
      hash.update(part);
      at += part.size();
    }
  };
  for (const Extent& extent : raw) {
    require_input(extent.offset >= at && extent.offset <= end && extent.bytes <= end - extent.offset, file.path().string(),
                  ": raw data at ", extent.offset, " overlap, or are beyond the end of the file");
    hash_until(extent.offset);
    at = extent.offset + extent.bytes;
  }
  hash_until(end);
  return hash.value();
}

}  // namespace

std::uint64_t seal(const std::filesystem::path& path, std::vector<Extent> raw) {
  File file(path, File::Mode::write);
  const std::uint64_t size = seal(file, std::move(raw));
  file.close();
  return size;
}

std::uint64_t seal(File& file, std::vector<Extent> raw) {
  std::erase_if(raw, [](const Extent& extent) { return extent.bytes == 0; });
  std::sort(raw.begin(), raw.end(), [](const Extent& a, const Extent& b) { return a.offset < b.offset; });
  const std::uint64_t end = file.size();
  Footer footer{magic, raw.size() * sizeof(Extent), hash_metadata(file, end, raw), 0};
  footer.seal_hash = hash_seal(raw, footer);
  file.write(end, std::as_bytes(Span<const Extent>(raw)));
  file.write(end + footer.table_bytes, std::as_bytes(Span<const Footer>(&footer, 1)));
  return end + footer.table_bytes + sizeof(Footer);
}

std::optional<std::vector<Extent>> find_seal(const std::filesystem::path& path) {
  const std::string name = path.string();
  const File file(path, File::Mode::read);
  const std::uint64_t size = file.size();
  Footer footer;
  if (size < sizeof(Footer)) return std::nullopt;
  file.read(size - sizeof(Footer), std::as_writable_bytes(Span<Footer>(&footer, 1)));
  if (footer.magic != magic) {
    const bool newer = std::memcmp(footer.magic.data(), magic.data(), magic_without_version) == 0;
    require_input(!newer, name, ": its seal has another format than 1, the only one that this program reads");
    return std::nullopt;
  }
  const bool fits = footer.table_bytes % sizeof(Extent) == 0 && footer.table_bytes <= size - sizeof(Footer);
  std::vector<Extent> raw(fits ? footer.table_bytes / sizeof(Extent) : 0);
  const std::uint64_t end = fits ? size - sizeof(Footer) - footer.table_bytes : 0;
  file.read(end, std::as_writable_bytes(Span<Extent>(raw)));
  require_input(fits && hash_seal(raw, footer) == footer.seal_hash, name, ": the seal at its end is damaged");
  const std::uint64_t found = hash_metadata(file, end, raw);
  require_input(found == footer.metadata_hash, name, ": metadata of the file (groups, attributes): checksum ", std::hex,
                found, ", expected ", footer.metadata_hash, "; the file is damaged");
  return raw;
}

std::vector<Extent> check_seal(const std::filesystem::path& path) {
  const std::string name = path.string();
  const std::filesystem::file_status status = std::filesystem::status(path);
  require_input(std::filesystem::exists(status), name, ": no such checkpoint");
  require_input(std::filesystem::is_regular_file(status), name, ": not a regular file; allowed: the path of a checkpoint");
  require_input(is_hdf5(path), name, ": not a checkpoint: it does not begin with HDF5's signature");
  std::optional<std::vector<Extent>> raw = find_seal(path);
  require_input(raw.has_value(), name, ": there is no seal at its end (byte ", std::filesystem::file_size(path),
                "): the file is incomplete, was changed by another program, or is not a checkpoint");
  return std::move(*raw);
}

}  // namespace shoal::io
