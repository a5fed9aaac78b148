// SPDX-License-Identifier: Apache-2.0
#include "config/json/json_plain.hpp"

#include <algorithm>

#include "shoal/base/error.hpp"

namespace shoal::config {

namespace {

class Plain {
 public:
  Plain(std::string_view text, const std::string& filename, JsonText& json)
      : plain_(text), filename_(filename), json_(json) {}

  std::string made() {
    while (at_ < plain_.size()) {
      if (comment_begins()) {
        comment();
      } else if (plain_[at_] == '"') {
        string();
      } else {
        sign();
      }
    }
    return std::move(plain_);
  }

 private:
  bool comment_begins() const {
    const std::string_view rest = std::string_view(plain_).substr(at_, 2);
    return rest[0] == '#' || rest == "//" || rest == "/*";
  }

  void comment() {
    const bool block = plain_.compare(at_, 2, "/*") == 0;
    warn(line_, "ignored: a comment, which JSON does not allow");
    std::size_t end = block ? plain_.find("*/", at_ + 2) : plain_.find('\n', at_);
    if (block && end == std::string::npos) {
      json_.problems.push_back(text(filename_, ":", line_, ": the comment that begins here does not end"));
    }
    end = std::min(block && end != std::string::npos ? end + 2 : end, plain_.size());
    for (; at_ < end; ++at_) {
      if (plain_[at_] == '\n') ++line_;
      if (plain_[at_] != '\n') plain_[at_] = ' ';
    }
  }

  void string() {
    last_ = '"';
    before_last_ = '"';
    for (++at_; at_ < plain_.size() && plain_[at_] != '"' && plain_[at_] != '\n'; ++at_) {
      if (plain_[at_] == '\\' && at_ + 1 < plain_.size() && plain_[at_ + 1] != '\n') ++at_;
    }
    if (at_ < plain_.size() && plain_[at_] == '"') ++at_;
  }

  /// Removes a comma between a value and a closing bracket.
  void sign() {
    const char c = plain_[at_];
    if (c == '\n') ++line_;
    if (c != ' ' && c != '\t' && c != '\r' && c != '\n') {
      const bool after_a_value = before_last_ != 0 && std::string_view("[{,:").find(before_last_) == std::string_view::npos;
      if ((c == '}' || c == ']') && last_ == ',' && after_a_value) {
        plain_[last_at_] = ' ';
        warn(last_line_, "ignored: a comma before a closing bracket, which JSON does not allow");
      }
      before_last_ = last_;
      last_ = c;
      last_at_ = at_;
      last_line_ = line_;
    }
    ++at_;
  }

  void warn(std::size_t line, const char* what) { json_.warnings.push_back(text(filename_, ":", line, ": ", what)); }

  std::string plain_;
  const std::string& filename_;
  JsonText& json_;
  std::size_t at_ = 0, line_ = 1;
  char last_ = 0, before_last_ = 0;  ///< the last two characters that are neither white space nor in a comment; 0: none yet
  std::size_t last_at_ = 0, last_line_ = 1;
};

}  // namespace

std::string plain_json(std::string_view text, const std::string& filename, JsonText& json) {
  return Plain(text, filename, json).made();
}

}  // namespace shoal::config
