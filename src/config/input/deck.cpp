// SPDX-License-Identifier: Apache-2.0
#include "shoal/config/deck.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include "shoal/base/error.hpp"
#include "shoal/config/input_text.hpp"
#include "shoal/config/table.hpp"
#include "shoal/config/value.hpp"

namespace shoal::config {

namespace {

constexpr std::string_view spaces = " \t";

/// The text before the comment, which begins at a # at the start or after white space.
std::string_view without_comment(std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '#' && (i == 0 || spaces.find(text[i - 1]) != std::string_view::npos)) return text.substr(0, i);
  }
  return text;
}

int hexadecimal(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

/// The character that an escape means. `at` is the position after the backslash, and is moved to the last character of the
/// escape.
std::optional<char> unescaped(std::string_view text, std::size_t& at) {
  switch (text[at]) {
    case '"': return '"';
    case '\\': return '\\';
    case 'n': return '\n';
    case 'r': return '\r';
    case 't': return '\t';
    case 'x': break;
    default: return std::nullopt;
  }
  if (at + 2 >= text.size()) return std::nullopt;
  const int high = hexadecimal(text[at + 1]), low = hexadecimal(text[at + 2]);
  if (high < 0 || low < 0) return std::nullopt;
  at += 2;
  return static_cast<char>(high * 16 + low);
}

/// A value, or what is wrong with the way it is written.
struct Written {
  std::string value, problem;
};

/// Reads a value in double quotes, with which the text begins.
Written in_quotes(std::string_view text) {
  Written written;
  std::size_t i = 1;
  for (; i < text.size() && text[i] != '"'; ++i) {
    if (text[i] != '\\') {
      written.value += text[i];
      continue;
    }
    const std::optional<char> meant = ++i < text.size() ? unescaped(text, i) : std::nullopt;
    if (!meant) return {{}, "no such escape in quotes; allowed: \\\" \\\\ \\n \\r \\t \\xHH"};
    written.value += *meant;
  }
  if (i >= text.size()) return {{}, "the closing quote is missing"};
  if (!trimmed(without_comment(text.substr(i + 1))).empty() || (i + 1 < text.size() && text[i + 1] == '#')) {
    return {{}, "text after the closing quote"};
  }
  return written;
}

Written value_of(std::string_view text) {
  const std::string_view bare = trimmed(text);
  if (!bare.empty() && bare.front() == '"') return in_quotes(bare);
  // The white space before the value is kept here: `key = # comment` has no value.
  return {std::string(trimmed(without_comment(text))), {}};
}

using OwnOptions = std::vector<CommandSpec::Own>;

class Reader {
 public:
  Reader(Deck& deck, std::string filename, const OwnOptions& own) : deck_(deck), filename_(std::move(filename)), own_(own) {}

  void line(std::string_view text) {
    ++line_;
    const std::string_view content = trimmed(text);
    if (content.empty() || content.front() == '#') return;
    if (content.front() == '[') {
      section(trimmed(without_comment(content)));
    } else if (const std::size_t equals = content.find('='); equals != std::string_view::npos && content.front() != ';') {
      setting(std::string(trimmed(content.substr(0, equals))), content.substr(equals + 1));
    } else {
      problem("`", shown(content), "` is neither key = value, nor [section], nor # a comment");
    }
  }

 private:
  template <typename... Parts>
  void problem(const Parts&... parts) {
    deck_.problems.push_back(shoal::text(filename_, ":", line_, ": ", parts...));
  }

  void section(std::string_view header) {
    section_ = std::nullopt;
    if (header.back() != ']') return problem("`", shown(header), "`: the closing ] is missing");
    const std::string name(trimmed(header.substr(1, header.size() - 2)));
    std::vector<std::string> known = sections();
    for (const std::string& option : own_names()) {
      if (known.back() != section_of(option)) known.push_back(section_of(option));
    }
    if (std::find(known.begin(), known.end(), name) != known.end()) {
      section_ = name + ".";
      return;
    }
    const std::string close = nearest(name, known);
    problem("[", shown(name), "]: unknown section",
            close.empty() ? "; allowed: " + joined(known) : "; did you mean [" + close + "]?");
  }

  void setting(const std::string& key, std::string_view text) {
    if (!section_) return;  // in an unknown section, which has been reported
    const std::string name = *section_ + key;
    const Row* const row = find(name);
    const CommandSpec::Own* const own = row == nullptr ? own_option(name) : nullptr;
    if (row == nullptr && own == nullptr) return problem(shown(name), ": ", unknown(shown(name)));
    if (const auto [first, fresh] = lines_.emplace(name, line_); !fresh) {
      return problem(name, ": set twice, first in line ", first->second);
    }
    const Written written = value_of(text);
    const Value type = own != nullptr ? own->value : row->member.get(deck_.options);
    const Allowed& allowed = own != nullptr ? own->allowed : row->allowed;
    if (!written.problem.empty()) return problem(name, ": ", written.problem);
    const Reading reading = read(written.value, allowed, type, name);
    if (!reading.value) return problem(refusal(name, written.value, reading.problem, allowed, type));
    if (own != nullptr) {
      deck_.own[name] = *reading.value;
    } else {
      row->member.set(deck_.options, *reading.value);
    }
    deck_.places.set(name, shoal::text(filename_, ":", line_));
  }

  /// The command's own options that have a section.
  std::vector<std::string> own_names() const {
    std::vector<std::string> names;
    for (const CommandSpec::Own& own : own_) {
      if (own.name.find('.') != std::string::npos) names.push_back(own.name);
    }
    return names;
  }
  const CommandSpec::Own* own_option(const std::string& name) const {
    if (name.find('.') == std::string::npos) return nullptr;
    const auto found = std::find_if(own_.begin(), own_.end(), [&](const auto& own) { return own.name == name; });
    return found == own_.end() ? nullptr : &*found;
  }
  std::string unknown(const std::string& name) const {
    const std::vector<std::string> own = own_names();
    const bool in_own =
        std::any_of(own.begin(), own.end(), [&](const auto& o) { return section_of(o) == section_of(name); });
    if (!in_own) return unknown_option(name);
    const std::string close = nearest(name, own);
    return close.empty() ? "unknown option; allowed: " + joined(own) : "unknown option; did you mean " + close + "?";
  }

  Deck& deck_;
  std::string filename_;
  const OwnOptions& own_;
  std::size_t line_ = 0;
  std::optional<std::string> section_ = "";  ///< "model."; none: in an unknown section
  std::map<std::string, std::size_t> lines_;
};

Deck unreadable_deck(const std::string& path, const std::string& why) {
  Deck deck;
  deck.problems.push_back(path + ": " + why);
  return deck;
}

}  // namespace

Deck parse_deck_text(std::string_view text, const std::string& filename, const OwnOptions& own) {
  constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";
  if (text.starts_with(byte_order_mark)) text.remove_prefix(byte_order_mark.size());
  if (text.find('\0') != std::string_view::npos)
    return unreadable_deck(filename, "not a deck: it contains zero bytes, so it is not a text file");
  Deck deck;
  Reader reader(deck, filename, own);
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    reader.line(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return deck;
}

Deck read_deck(const std::string& path, const OwnOptions& own) {
  const InputText input = read_input(path, "the path of a deck", "deck");
  return input.problem.empty() ? parse_deck_text(input.text, path, own) : unreadable_deck(path, input.problem);
}

}  // namespace shoal::config
