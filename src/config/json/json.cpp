// SPDX-License-Identifier: Apache-2.0
// Reads JSON with the events of nlohmann-json, over an iterator that counts lines: its usual result has neither the lines of
// keys nor keys that are given twice.
#include "config/json/json.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>

#include "config/json/json_plain.hpp"
#include "shoal/base/error.hpp"
#include "shoal/config/input_text.hpp"
#include "shoal/config/value.hpp"

namespace shoal::config {

namespace {

using Json = nlohmann::json;
using Kind = JsonEntry::Kind;

/// The line of the last character that was read. An end of line still belongs to the line that it ends, because the parser
/// reads one character beyond a number.
struct Lines {
  std::size_t line = 1;
  char last = 0;

  void read(char c) {
    if (last == '\n') ++line;
    last = c;
  }
};

class CountingIterator {
 public:
  using value_type = char;
  using reference = const char&;
  using pointer = const char*;
  using difference_type = std::ptrdiff_t;
  using iterator_category = std::input_iterator_tag;

  CountingIterator(const char* at, Lines* lines) : at_(at), lines_(lines) {}
  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    lines_->read(*at_++);
    return *this;
  }
  bool operator==(const CountingIterator& other) const { return at_ == other.at_; }
  bool operator!=(const CountingIterator& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  Lines* lines_;
};

/// A key as a part of a path: in quotes if it is not a plain name, so that it is not taken for several parts.
std::string part(const std::string& key) {
  constexpr std::size_t longest = 64;
  const auto of_a_name = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  };
  const bool name = !key.empty() && key.size() <= longest && std::all_of(key.begin(), key.end(), of_a_name);
  return name ? key : "\"" + shown(key) + "\"";
}

/// The reason in a message of the parser, without the name and place that it adds, and without the text that it read, which
/// may be long.
std::string reason(const std::string& what) {
  const std::size_t name = what.find("] "), place = what.find("syntax error"), read = what.find("; last read: '");
  const std::size_t begin = place != std::string::npos ? place : name == std::string::npos ? 0 : name + 2;
  const std::string before = what.substr(begin, read == std::string::npos ? read : read - begin);
  const std::size_t end = what.rfind('\'');
  return shown(before) + (read == std::string::npos ? "" : shown(what.substr(end + 1)));
}

class SaxReader : public nlohmann::json_sax<Json> {
 public:
  SaxReader(const Lines& lines, const std::string& filename, JsonText& json)
      : lines_(lines), filename_(filename), json_(json) {}

  bool null() override { return entry(Kind::null, ""); }
  bool boolean(bool value) override { return entry(Kind::flag, value ? "true" : "false"); }
  bool number_integer(number_integer_t value) override { return entry(Kind::number, std::to_string(value)); }
  bool number_unsigned(number_unsigned_t value) override { return entry(Kind::number, std::to_string(value)); }
  bool number_float(number_float_t, const string_t& written) override { return entry(Kind::number, written); }
  bool string(string_t& value) override { return entry(Kind::text, value); }
  bool binary(binary_t&) override { return refuse("binary data"); }

  bool start_object(std::size_t) override { return open(Kind::object); }
  bool end_object() override { return close(); }
  bool start_array(std::size_t) override { return open(Kind::array); }
  bool end_array() override { return close(); }

  bool key(string_t& value) override {
    Level& level = levels_.back();
    level.key = part(value);
    const auto [first, fresh] = level.seen.emplace(value, lines_.line);
    return fresh || refuse("given twice, first in line ", first->second);
  }

  bool parse_error(std::size_t, const std::string& token, const Json::exception& error) override {
    const std::string what = error.what();
    const auto says = [&](const char* words) { return what.find(words) != std::string::npos; };
    if (done_) {
      json_.problems.push_back(text(filename_, ":", lines_.line, ": text after the closing bracket of the configuration"));
      return false;
    }
    if (says("unexpected end of input") || says("missing closing quote")) {
      return refuse("incomplete: the file ends too early, or a closing quote is missing");
    }
    if (says("invalid literal") && (token.ends_with('N') || token.ends_with('I'))) {
      return refuse("JSON has no NaN and no Infinity; write a number");
    }
    return refuse("not JSON: ", reason(what));
  }

 private:
  static constexpr std::size_t deepest = 16, most_entries = 10000;

  struct Level {
    std::string path;
    bool array;
    std::size_t next;                         ///< of an array: the index of the next element
    std::string key;                          ///< of an object: the key that was read last
    std::map<std::string, std::size_t> seen;  ///< of an object: keys and their lines
  };

  /// The path of the value that is read now.
  std::string path() const {
    if (levels_.empty()) return {};
    const Level& level = levels_.back();
    if (level.array) return text(level.path, "[", level.next, "]");
    return level.path + (level.path.empty() || level.key.empty() ? "" : ".") + level.key;
  }

  template <typename... Parts>
  bool refuse(const Parts&... parts) {
    const std::string at = path();
    json_.problems.push_back(text(filename_, ":", lines_.line, ": ", at, at.empty() ? "" : ": ", parts...));
    return false;
  }

  bool entry(Kind kind, const std::string& value) {
    if (levels_.empty() && kind != Kind::object) {
      return refuse("a configuration is an object, {\"key\": value, ...}");
    }
    if (json_.entries.size() >= most_entries) return refuse("more than ", most_entries, " values");
    if (!levels_.empty()) {
      json_.entries.push_back({path(), kind, value, lines_.line});
      if (kind != Kind::object && kind != Kind::array) next();
    }
    return true;
  }

  bool open(Kind kind) {
    if (levels_.size() >= deepest) return refuse("more than ", deepest, " levels of brackets");
    if (!entry(kind, "")) return false;
    levels_.push_back({path(), kind == Kind::array, 0, {}, {}});
    return true;
  }

  bool close() {
    levels_.pop_back();
    done_ = levels_.empty();
    if (!done_) next();
    return true;
  }

  void next() {
    ++levels_.back().next;
    levels_.back().key.clear();
  }

  const Lines& lines_;
  const std::string& filename_;
  JsonText& json_;
  std::vector<Level> levels_;
  bool done_ = false;
};

JsonText unreadable_json(const std::string& path, const std::string& why) {
  JsonText json;
  json.problems.push_back(path + ": " + why);
  return json;
}

}  // namespace

JsonText parse_json_text(std::string_view text, const std::string& filename) {
  JsonText json;
  const std::string plain = plain_json(text, filename, json);
  if (!json.problems.empty()) return json;
  Lines lines;
  SaxReader reader(lines, filename, json);
  const CountingIterator begin(plain.data(), &lines), end(plain.data() + plain.size(), &lines);
  Json::sax_parse(begin, end, &reader);
  return json;
}

JsonText read_json(const std::string& path) {
  const InputText input = read_input(path, "a DeepSpeed configuration", "configuration");
  return input.problem.empty() ? parse_json_text(input.text, path) : unreadable_json(path, input.problem);
}

}  // namespace shoal::config
