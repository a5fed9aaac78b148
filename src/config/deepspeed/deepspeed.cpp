// SPDX-License-Identifier: Apache-2.0
// Checks each key of the file against its row. Keys that can be translated one by one are translated here.
#include "config/deepspeed/deepspeed.hpp"

#include <charconv>
#include <cmath>
#include <utility>

#include "config/checks/validate.hpp"
#include "config/deepspeed/deepspeed_file.hpp"

namespace shoal::config {

namespace {

using Kind = JsonEntry::Kind;
using Role = DeepSpeedKey::Role;

const char* words_for(Kind kind) {
  switch (kind) {
    case Kind::null: return "null";
    case Kind::flag: return "true or false";
    case Kind::number: return "a number";
    case Kind::text: return "text";
    case Kind::array: return "a list";
    case Kind::object: return "a block { }";
  }
  return "";
}

Kind kind_of(const DeepSpeedKey& key) {
  if (key.role == Role::block || key.role == Role::idle_block) return Kind::object;
  if (key.role == Role::list) return Kind::array;
  if (std::holds_alternative<bool>(key.type)) return Kind::flag;
  return std::holds_alternative<std::string>(key.type) ? Kind::text : Kind::number;
}

/// Writes 4e5 and 16.0 as whole numbers if the type is one.
std::string plain_number(const std::string& written, const Value& type) {
  constexpr double beyond = 9223372036854775808.0;  // 2^63
  double number = 0;
  const auto [end, status] = std::from_chars(written.data(), written.data() + written.size(), number);
  const bool whole = status == std::errc() && std::abs(number) < beyond && number == std::floor(number);
  const bool plain = written.find_first_of(".eE") == std::string::npos;
  if (std::holds_alternative<double>(type) || plain || !whole) return written;
  return print(Value(static_cast<std::int64_t>(number)), {});
}

std::string written(const JsonEntry& entry) {
  switch (entry.kind) {
    case Kind::text: return "\"" + shown(entry.value) + "\"";
    case Kind::flag:
    case Kind::number: return shown(entry.value);
    case Kind::null: return "null";
    default: return "";
  }
}

bool is_within(const std::string& path, const std::string& block) {
  return path.starts_with(block) && path.size() > block.size() && (path[block.size()] == '.' || path[block.size()] == '[');
}

}  // namespace

DeepSpeedFile::DeepSpeedFile(const JsonText& json, const std::string& filename, const Options& others, const Places& places)
    : filename_(filename), json_(json), others_(others), places_(places) {
  for (const JsonEntry& entry : json.entries) take(entry);
}

void DeepSpeedFile::take(const JsonEntry& entry) {
  if (!skipped_.empty() && is_within(entry.path, skipped_)) return;
  if (is_of_foreign_type(entry)) return;
  take_today(entry, entry);
}

bool DeepSpeedFile::is_of_foreign_type(const JsonEntry& entry) const {
  const auto within = [&](const std::string& block, bool (*has_type)(const std::string&)) {
    if (!is_within(entry.path, block + ".params")) return false;
    return std::any_of(json_.entries.begin(), json_.entries.end(), [&](const JsonEntry& other) {
      return other.path == block + ".type" && other.kind == Kind::text && !has_type(other.value);
    });
  };
  return within("optimizer", has_optimizer) || within("scheduler", has_scheduler);
}

void DeepSpeedFile::take_today(const JsonEntry& entry, const JsonEntry& origin) {
  given_[entry.path] = {Value(false), written(origin), origin.line, origin.path};  // messages name its line
  const DeepSpeedKey* const key = find_deepspeed(entry.path);
  const auto refuse = [&](const auto&... parts) {
    problem(entry.path, parts...);
    skipped_ = entry.path;
    given_.erase(entry.path);
  };
  if (is_comment_key(entry.path)) {
    note(entry.path, "taken for a comment: its name begins with _");
    skipped_ = entry.path;
    given_.erase(entry.path);
    return;
  }
  if (key == nullptr) return refuse(unknown_deepspeed_key(entry.path));
  if (key->role == Role::refused) return refuse("no longer supported: ", key->text);
  if (entry.kind == Kind::null) {
    note(entry.path, "treated as absent");
    given_.erase(entry.path);
    return;
  }
  if (key->role == Role::feature) return take_feature(entry, *key);
  if (entry.kind == Kind::text && entry.value == "auto" && kind_of(*key) != Kind::object) {
    auto_.insert(given_.extract(entry.path));
    return;
  }
  if (take_old(entry)) return;
  if (entry.kind != kind_of(*key)) return refuse("is ", words_for(entry.kind), "; allowed: ", words_for(kind_of(*key)));
  if (key->role == Role::idle_block) {
    note(entry.path, "has no effect here: ", key->text);
    skipped_ = entry.path;
  } else if (key->role != Role::block && key->role != Role::list) {
    take_value(entry, *key);
  }
}

void DeepSpeedFile::take_value(const JsonEntry& entry, const DeepSpeedKey& key) {
  const std::string text = kind_of(key) == Kind::number ? plain_number(entry.value, key.type) : entry.value;
  const Reading reading = read(text, key.allowed, key.type, key.path);
  if (!reading.value) {
    problem(entry.path, refusal("", "", reading.problem, key.allowed, key.type).substr(2));
    given_.erase(entry.path);
    return;
  }
  given_[entry.path].value = *reading.value;
  switch (key.role) {
    case Role::option: return set(key.text, *reading.value, entry.path);
    case Role::irrelevant: return note(entry.path, "has no effect here: ", key.text);
    case Role::absent:
      for (const std::string& harmless : key.harmless) {
        if (harmless == print(*reading.value, {})) return;
      }
      return absent(entry.path, key.text);
    default: return;  // it is translated together with other keys
  }
}

void DeepSpeedFile::take_feature(const JsonEntry& entry, const DeepSpeedKey& key) {
  skipped_ = entry.path;
  if (entry.kind == Kind::flag && entry.value == "false") return;
  bool off = false;
  for (const JsonEntry& inner : json_.entries) {
    off = off || (inner.path == entry.path + ".enabled" && inner.kind == Kind::flag && inner.value == "false");
  }
  if (off) return note(entry.path, "is not enabled");
  absent(entry.path, key.text);
}

bool DeepSpeedFile::is_auto(const std::string& path) const {
  return std::any_of(auto_.begin(), auto_.end(),
                     [&](const auto& key) { return path == key.first || is_within(path, key.first); });
}

void DeepSpeedFile::note_auto() {
  std::vector<std::pair<std::size_t, std::string>> keys;
  for (const auto& [path, given] : auto_) keys.emplace_back(given.line, given.path);
  std::sort(keys.begin(), keys.end());
  std::vector<std::string> names;
  for (const auto& [line, name] : keys) names.push_back(name);
  if (!names.empty()) {
    note_of_file("\"auto\" stands for the value of the deck or the command line, else for the default: " + joined(names));
  }
}

std::string DeepSpeedFile::shown_value(const std::string& path) const {
  const auto found = given_.find(path);
  return found == given_.end() ? std::string() : found->second.shown;
}

Value DeepSpeedFile::chosen(const std::string& option) const {
  if (places_.of(option) != "command line") {
    for (const DeepSpeedSetting& setting : settings_) {
      if (setting.option == option && setting.is_explicit) return setting.value;
    }
  }
  return find(option)->member.get(others_);
}

Options DeepSpeedFile::chosen_options() const {
  Options options = others_;
  for (const DeepSpeedSetting& setting : settings_) {
    if (setting.is_explicit) find(setting.option)->member.set(options, chosen(setting.option));
  }
  return options;
}

void DeepSpeedFile::withdraw_idle() {
  for (const IdleOption& idle : idle_with_schedule(chosen_options())) {
    for (const DeepSpeedSetting& setting : settings_) {
      if (setting.option == idle.option && setting.is_explicit) note(setting.path, "no effect: ", idle.with);
    }
    std::erase_if(settings_, [&](const DeepSpeedSetting& setting) { return setting.option == idle.option; });
  }
}

std::size_t DeepSpeedFile::line_of(const std::string& path) const {
  const auto found = given_.find(path);
  return found == given_.end() ? 0 : found->second.line;
}

std::string DeepSpeedFile::written_path(const std::string& path) const {
  const auto found = given_.find(path);
  return found == given_.end() ? path : found->second.path;
}

std::string DeepSpeedFile::place(const std::string& path) const {
  const std::size_t line = line_of(path);
  return line == 0 ? filename_ : text(filename_, ":", line, " (", written_path(path), ")");
}

std::string DeepSpeedFile::lead(const std::string& path) const {
  const std::string value = shown_value(path);
  return text(filename_, ":", line_of(path), ": ", written_path(path), value.empty() ? "" : " = ", value, ": ");
}

void DeepSpeedFile::add(const std::string& option, const Value& value, const std::string& path, bool is_explicit) {
  const Row& row = *find(option);
  const Reading reading = read(print(value, row.allowed), row.allowed, row.member.get(others_), option);
  if (!reading.value) return problem(path, option, " = ", print(value, row.allowed), ": ", reading.problem);
  settings_.push_back({option, *reading.value, is_explicit, place(path), path});
}

void DeepSpeedFile::absent(const std::string& path, const std::string& instead) {
  absent_.push_back({path, text(lead(path), "not built yet: ", path, instead.empty() ? "" : "; ", instead)});
}

DeepSpeedTranslation DeepSpeedFile::translation() {
  DeepSpeedTranslation result = {std::move(settings_), rest, std::move(absent_), json_.warnings, {}};
  for (auto& [line, note] : notes_) result.notes.push_back(std::move(note));
  for (auto& [line, problem] : problems_) result.problems.push_back(std::move(problem));
  return result;
}

DeepSpeedTranslation translate_deepspeed(const JsonText& json, const std::string& filename, const Options& others,
                                         const Places& places) {
  if (!json.problems.empty()) return {{}, {}, {}, json.warnings, json.problems};
  DeepSpeedFile file(json, filename, others, places);
  if (file.has_problems()) return file.translation();  // a key that seems to be missing may have been refused
  for (const auto part : {translate_batch, translate_display, translate_precision, translate_zero, translate_offload,
                          translate_activations, translate_optimizer, translate_scheduler}) {
    part(file);
  }
  file.withdraw_idle();
  file.note_auto();
  return file.translation();
}

}  // namespace shoal::config
