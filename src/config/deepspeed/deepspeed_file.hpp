// SPDX-License-Identifier: Apache-2.0
// The values of a DeepSpeed configuration whose keys passed the checks of their rows, and the options, notes and problems
// that they are translated to.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "config/deepspeed/deepspeed_keys.hpp"
#include "config/deepspeed/deepspeed_translation.hpp"
#include "config/json/json_entries.hpp"
#include "shoal/base/error.hpp"
#include "shoal/config/table.hpp"

namespace shoal::config {

class DeepSpeedFile {
 public:
  DeepSpeedFile(const JsonText& json, const std::string& filename, const Options& others, const Places& places);

  bool has(const std::string& path) const { return given_.count(path) != 0; }
  /// Returns true if the key, or the list that it is in, is "auto": the deck and the command line choose the value.
  bool is_auto(const std::string& path) const;
  /// The value of the key; `otherwise` if it is absent.
  template <typename T>
  T value(const std::string& path, T otherwise) const {
    const auto found = given_.find(path);
    return found == given_.end() ? otherwise : std::get<T>(found->second.value);
  }
  /// Returns true if zero_optimization is true or false, as in early versions of DeepSpeed.
  bool has_old_zero() const;
  /// The value as messages show it; empty if the key is absent.
  std::string shown_value(const std::string& path) const;

  /// The value that the option will have in the run: that of the command line, else of this file, else of the deck.
  Value chosen(const std::string& option) const;
  template <HasNames E>
  E chosen_named(const std::string& option) const {
    return value_named<E>(std::get<std::string>(chosen(option))).value();
  }
  const Options& others() const { return others_; }
  const Places& places() const { return places_; }

  /// Give an option a value. path: the key with this value, or from which it follows.
  void set(const std::string& option, const Value& value, const std::string& path) { add(option, value, path, true); }
  template <HasNames E>
  void set(const std::string& option, E value, const std::string& path) {
    add(option, std::string(name_of(value)), path, true);
  }
  void imply(const std::string& option, const Value& value, const std::string& path) { add(option, value, path, false); }
  template <typename... Parts>
  void note(const std::string& path, const Parts&... parts) {
    notes_.emplace(line_of(path), text(lead(path), parts...));
  }
  template <typename... Parts>
  void problem(const std::string& path, const Parts&... parts) {
    problems_.emplace(line_of(path), text(lead(path), parts...));
  }
  /// Takes back what the file gives to options that have no effect with the chosen optimizer and schedule, with a note for
  /// each key: in DeepSpeed, too, schedulers set rates and betas that the optimizer's block has as well.
  void withdraw_idle();
  /// A problem or a note about the whole file: a key is missing.
  void lacks(const std::string& what) { problems_.emplace(0, filename_ + ": " + what); }
  void note_of_file(const std::string& what) { notes_.emplace(0, filename_ + ": " + what); }
  /// One note that lists the keys whose value is "auto".
  void note_auto();
  void absent(const std::string& path, const std::string& instead);
  std::string place(const std::string& path) const;

  bool has_problems() const { return !problems_.empty(); }
  /// The result. Empties this object.
  DeepSpeedTranslation translation();

  DeepSpeedRest rest;

 private:
  struct Given {
    Value value;
    std::string shown;
    std::size_t line;
    std::string path;  ///< as in the file, possibly in a deprecated form
  };

  void take(const JsonEntry& entry);
  /// Returns true for parameters of an optimizer or a scheduler that does not exist here: its type is what is refused.
  bool is_of_foreign_type(const JsonEntry& entry) const;
  /// origin: the entry in the file; it differs from `entry` if the file uses a deprecated form.
  void take_today(const JsonEntry& entry, const JsonEntry& origin);
  /// Returns true if the entry has a deprecated form, which is then read.
  bool take_old(const JsonEntry& entry);
  void take_value(const JsonEntry& entry, const DeepSpeedKey& key);
  void take_feature(const JsonEntry& entry, const DeepSpeedKey& key);
  void add(const std::string& option, const Value& value, const std::string& path, bool is_explicit);
  /// All options with the values that chosen() returns.
  Options chosen_options() const;
  std::size_t line_of(const std::string& path) const;
  std::string written_path(const std::string& path) const;
  /// "FILE:LINE: KEY = VALUE: ".
  std::string lead(const std::string& path) const;

  std::string filename_;
  const JsonText& json_;
  const Options& others_;
  const Places& places_;
  std::map<std::string, Given> given_;
  std::string skipped_;                ///< a path whose members are not read
  std::map<std::string, Given> auto_;  ///< keys whose value is "auto"
  std::vector<DeepSpeedSetting> settings_;
  std::vector<DeepSpeedAbsent> absent_;
  std::multimap<std::size_t, std::string> notes_, problems_;  ///< by line
};

/// Return true for types that the program has; "auto" is the deck's.
bool has_optimizer(const std::string& type);
bool has_scheduler(const std::string& type);

// Keys that are translated together (deepspeed_sharding.cpp, deepspeed_training.cpp).
void translate_batch(DeepSpeedFile& file);
void translate_display(DeepSpeedFile& file);
void translate_precision(DeepSpeedFile& file);
void translate_zero(DeepSpeedFile& file);
void translate_offload(DeepSpeedFile& file);
void translate_activations(DeepSpeedFile& file);
void translate_optimizer(DeepSpeedFile& file);
void translate_scheduler(DeepSpeedFile& file);

}  // namespace shoal::config
