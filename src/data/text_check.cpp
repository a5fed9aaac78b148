// SPDX-License-Identifier: Apache-2.0
#include "text_check.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <optional>
#include <string>

#include "shoal/base/error.hpp"
#include "shoal/base/utf8.hpp"

namespace shoal::data {

namespace {

using namespace std::string_view_literals;

/// Few enough bytes of a block of some MiB that nobody waits for the check.
constexpr std::size_t checked_bytes = std::size_t{64} << 10U;
constexpr std::size_t good_per_invalid = 1000, good_per_control = 20;

constexpr const char* unpack = "unpack it first";
constexpr const char* token_ids = "token ids must be in a tokens file (inputs/README.md, \"Data\")";
constexpr const char* from_utf16 = "convert it: iconv -f UTF-16 -t UTF-8";

struct Kind {
  std::string_view begins;  ///< the first bytes of such a file
  const char* name;
  const char* cure = "";
  bool surely = false;  ///< no text begins so
};

/// UTF-32 stands before UTF-16, whose mark it begins with.
constexpr std::array kinds = {
    Kind{"\x1F\x8B"sv, "a gzip archive", unpack},
    Kind{"PK\x03\x04"sv, "a zip archive (.npz and PyTorch's .pt are such)", unpack},
    Kind{"\x28\xB5\x2F\xFD"sv, "a zstd archive", unpack},
    Kind{"\xFD\x37zXZ\0"sv, "an xz archive", unpack},
    Kind{"BZh"sv, "a bzip2 archive", unpack},
    Kind{"\x04\x22\x4D\x18"sv, "an lz4 archive", unpack},
    Kind{"\x93NUMPY"sv, "an array of NumPy (.npy)", token_ids},
    Kind{"\x88\xD8\x34\x01"sv, "token ids of llm.c", token_ids},  // the number 20240520: ids of GPT-2
    Kind{"\xA1\xD9\x34\x01"sv, "token ids of llm.c", token_ids},  // 20240801: ids of Llama 3
    Kind{"MMIDIDX\0"sv, "an index of Megatron's tokens", token_ids},
    Kind{"\xFF\xFE\0\0"sv, "text in UTF-32", "convert it: iconv -f UTF-32 -t UTF-8"},
    Kind{"\xFF\xFE"sv, "text in UTF-16", from_utf16},
    Kind{"\xFE\xFF"sv, "text in UTF-16", from_utf16},
    Kind{"SQLite format 3\0"sv, "an SQLite database"},
    Kind{"version https://git-lfs"sv, "a pointer of Git LFS", "fetch the file itself: git lfs pull", true},
    Kind{"\x7F"
         "ELF"sv,
         "a program (ELF)"},
    Kind{"MZ"sv, "a program (Windows)"},
    Kind{"\x89PNG\r\n"sv, "a picture (PNG)"},
    Kind{"\xFF\xD8\xFF"sv, "a picture (JPEG)"},
    Kind{"GIF8"sv, "a picture (GIF)"},
    Kind{"%PDF-"sv, "a PDF document"},
    Kind{"PAR1"sv, "a Parquet file"},
    Kind{"ARROW1"sv, "an Arrow file"},
};

/// Control characters that no text uses; terminals and printers obey the others (bell to carriage return, and escape).
bool is_foreign(std::uint32_t code) { return code < 0x07 || (code > 0x0D && code < 0x20 && code != 0x1B) || code == 0x7F; }

bool is_inside_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U; }

struct Scan {
  std::size_t zeros = 0, invalid = 0, controls = 0;
  std::optional<std::size_t> first;  ///< position of the first byte of these kinds
};

/// A character that the end of the piece cuts is no error, nor is one that its beginning cuts: files are divided anywhere.
Scan scan(std::string_view piece) {
  Scan seen;
  std::size_t at = 0;
  while (at < std::min<std::size_t>(3, piece.size()) && is_inside_character(piece[at])) ++at;
  while (at < piece.size()) {
    const Character character = first_character(piece.substr(at));
    const bool bad = character.length == 0 || is_foreign(character.code);
    const bool cut = character.length == 0 && piece.size() - at < 4 && static_cast<unsigned char>(piece[at]) >= 0xC0U;
    if (bad && !cut) {
      if (!seen.first) seen.first = at;
      ++(character.length == 0 ? seen.invalid : character.code == 0 ? seen.zeros : seen.controls);
    }
    at += std::max<std::size_t>(character.length, 1);
  }
  return seen;
}

/// Whether the first bytes of a format prove it. Letters do not: a text may begin with them.
bool proves(std::string_view begins) {
  return std::any_of(begins.begin(), begins.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte >= 0x80 || is_foreign(byte);
  });
}

bool is_utf16(std::string_view piece) {
  std::size_t little = 0, big = 0;
  const auto letter = [](char c) { return c == ' ' || std::isalpha(static_cast<unsigned char>(c)) != 0; };
  for (std::size_t at = 0; at + 1 < piece.size(); at += 2) {
    little += letter(piece[at]) && piece[at + 1] == 0 ? 1 : 0;
    big += piece[at] == 0 && letter(piece[at + 1]) ? 1 : 0;
  }
  return std::max(little, big) > piece.size() / 5;
}

/// What a piece of a file looks like that is no text.
Kind kind_of(std::string_view piece, const Scan& seen) {
  if (is_utf16(piece)) return {"", "text in UTF-16", from_utf16};
  if (seen.zeros == 0 && seen.controls * good_per_control <= piece.size()) {
    return {"", "text in another encoding than UTF-8", "convert it: iconv -f ISO-8859-1 -t UTF-8, if it is Latin-1"};
  }
  return {"", "binary data (token ids of nanoGPT or Megatron?)", token_ids};
}

[[noreturn]] void refuse(const Kind& kind, std::string_view block, std::size_t at, const std::filesystem::path& file,
                         std::size_t offset) {
  std::array<char, 8> value{};
  std::snprintf(value.data(), value.size(), "0x%02X", static_cast<unsigned>(static_cast<unsigned char>(block[at])));
  bad_input(file.string(), ": byte ", offset + at, " is ", value.data(), ": no text, it looks like ", kind.name,
            *kind.cure == 0 ? "" : "; ", kind.cure,
            "; allowed: UTF-8 text, or data.tokenizer = raw for the bytes of any file");
}

}  // namespace

void require_text(std::string_view block, const std::filesystem::path& file, std::size_t offset) {
  const std::string_view piece = block.substr(0, checked_bytes);
  const Scan seen = scan(piece);
  const std::size_t zero = block.find('\0');
  const std::size_t later = seen.first.value_or(zero == std::string_view::npos ? 0 : zero);
  const std::size_t first = is_inside_character(block.front()) ? 0 : later;
  const bool bad = zero != std::string_view::npos || seen.controls * good_per_control > piece.size() ||
                   seen.invalid > std::max<std::size_t>(1, piece.size() / good_per_invalid);
  for (const Kind& kind : kinds) {
    if (offset > 0 || !block.starts_with(kind.begins)) continue;
    if (bad || kind.surely || proves(kind.begins)) refuse(kind, block, first, file, offset);
  }
  if (bad) refuse(kind_of(piece, seen), block, first, file, offset);
}

}  // namespace shoal::data
