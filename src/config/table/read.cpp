// SPDX-License-Identifier: Apache-2.0
// Reads values from text. A number must be the whole text: "64x" is not 64, and "-1" is not 4294967295.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "shoal/config/value.hpp"
#include "shoal/config/wall_time.hpp"

namespace shoal::config {

namespace {

Reading wrong(std::string problem) { return {std::nullopt, std::move(problem)}; }

/// Reads the whole text as a number.
template <typename Number>
std::errc exactly(std::string_view text, Number& number) {
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (status == std::errc() && end != text.data() + text.size()) return std::errc::invalid_argument;
  return status;
}

/// Returns true for a value within the bounds, and for the value that the word means: 0 may be written for `auto` if that
/// means 0.
bool within(double value, const Allowed& allowed) {
  if (!allowed.word.empty() && value == allowed.sentinel) return true;
  const bool low = allowed.low_open ? value > allowed.low : value >= allowed.low;
  const bool high = allowed.high_open ? value < allowed.high : value <= allowed.high;
  return low && high;
}

/// "no such stage; did you mean ...?" for zero.stage.
std::string no_such(std::string_view text, const std::vector<std::string>& choices, std::string_view name) {
  const std::string close = nearest(text, choices);
  const std::string key(name.substr(name.rfind('.') + 1));  // npos + 1 is 0: the whole name
  return "no such " + key + (close.empty() ? "" : "; did you mean " + close + "?");
}

Reading read_flag(std::string_view text) {
  const std::string word = lower(text);
  for (const char* const yes : {"true", "on", "yes", "1"}) {
    if (word == yes) return {Value(true), {}};
  }
  for (const char* const no : {"false", "off", "no", "0"}) {
    if (word == no) return {Value(false), {}};
  }
  return wrong("neither true nor false");
}

Reading read_real(std::string_view text, const Allowed& allowed) {
  double value = 0;
  if (allowed.wall_time && text.find(':') != std::string_view::npos) {
    const auto seconds = wall_time(text);
    if (!seconds) return wrong("not a wall time");
    return {Value(static_cast<double>(*seconds)), {}};
  }
  const std::errc status = exactly(text, value);
  if (status == std::errc::result_out_of_range) return wrong("too large or too small");
  if (status != std::errc()) return wrong("not a number");
  if (!std::isfinite(value)) return wrong("not a finite number");
  if (!within(value, allowed)) return wrong("out of range");
  return {Value(value), {}};
}

template <typename Integer>
Reading read_whole(std::string_view text, const Allowed& allowed, std::string_view name) {
  Integer value = 0;
  const std::errc status = exactly(text, value);
  if (status == std::errc::result_out_of_range) return wrong("too large");
  if (status != std::errc()) {
    double real = 0;                                    // "1e3" and "-1": numbers, but not in the form of an integer
    constexpr double exact_up_to = 9007199254740992.0;  // 2^53
    if (exactly(text, real) != std::errc() || std::abs(real) > exact_up_to || real != std::floor(real))
      return wrong("not a whole number");
    if (std::is_unsigned_v<Integer> && real < 0) return wrong("negative");
    return wrong("not written as a whole number; write " + print(Value(static_cast<std::int64_t>(real)), {}));
  }
  if (!allowed.choices.empty()) {
    const bool known =
        std::find(allowed.choices.begin(), allowed.choices.end(), print(Value(value), {})) != allowed.choices.end();
    return known ? Reading{Value(value), {}} : wrong(no_such(text, {}, name));
  }
  if (!within(static_cast<double>(value), allowed)) return wrong("out of range");
  return {Value(value), {}};
}

Reading read_text(std::string_view text, const Allowed& allowed, std::string_view name) {
  if (text.empty() && !allowed.empty) return wrong("empty");
  const std::vector<std::string>& choices = allowed.choices;
  if (choices.empty() || std::find(choices.begin(), choices.end(), text) != choices.end())
    return {Value(std::string(text)), {}};
  if (allowed.count) {
    const Reading count = read_whole<std::uint64_t>(text, at_least(1), name);
    if (count.value) return {Value(print(*count.value, {})), {}};
  }
  return wrong(no_such(text, choices, name));
}

}  // namespace

Reading read(std::string_view text, const Allowed& allowed, const Value& type, std::string_view name) {
  if (std::holds_alternative<std::string>(type)) return read_text(text, allowed, name);
  if (text.empty()) return wrong("no value");
  if (std::holds_alternative<bool>(type)) return read_flag(text);
  const bool real = std::holds_alternative<double>(type), is_signed = std::holds_alternative<std::int64_t>(type);
  if (!allowed.word.empty() && text == allowed.word) {
    if (real) return {Value(allowed.sentinel), {}};
    if (is_signed) return {Value(static_cast<std::int64_t>(allowed.sentinel)), {}};
    return {Value(static_cast<std::uint64_t>(allowed.sentinel)), {}};
  }
  if (real) return read_real(text, allowed);
  return is_signed ? read_whole<std::int64_t>(text, allowed, name) : read_whole<std::uint64_t>(text, allowed, name);
}

std::string refusal(std::string_view name, std::string_view text, const std::string& problem, const Allowed& allowed,
                    const Value& type) {
  const std::string given = text.empty() ? std::string() : " = " + shown(text);
  const char* const join = problem.ends_with('?') ? " allowed: " : "; allowed: ";
  return std::string(name) + given + ": " + problem + join + describe(allowed, type);
}

}  // namespace shoal::config
