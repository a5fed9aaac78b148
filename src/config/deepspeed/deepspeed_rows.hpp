// SPDX-License-Identifier: Apache-2.0
// Constructors of the rows for the keys of DeepSpeed.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "config/deepspeed/deepspeed_key.hpp"
#include "config/table/limits.hpp"
#include "shoal/config/table.hpp"

namespace shoal::config {

using Keys = std::vector<DeepSpeedKey>;

// Limit of counts of elements, which are added and multiplied by bytes: far above any model, far below an overflow.
inline constexpr double most_elements = 1e15;

inline const Value a_flag = false, a_count = std::uint64_t{0}, a_whole = std::int64_t{0}, a_real = 0.0,
                   a_text = std::string();
inline const Allowed elements = between(1, most_elements), some_elements = between(0, most_elements);

inline DeepSpeedKey block(const char* path) { return {path, DeepSpeedKey::Role::block, {}, {}, {}}; }
inline DeepSpeedKey list(const char* path) { return {path, DeepSpeedKey::Role::list, {}, {}, {}}; }
inline DeepSpeedKey used(const char* path, const Value& type, const Allowed& allowed = any()) {
  return {path, DeepSpeedKey::Role::used, type, allowed, {}};
}
inline DeepSpeedKey irrelevant(const char* path, const Value& type, const char* why, const Allowed& allowed = any()) {
  return {path, DeepSpeedKey::Role::irrelevant, type, allowed, why};
}
inline DeepSpeedKey idle_block(const char* path, const char* why) {
  return {path, DeepSpeedKey::Role::idle_block, {}, {}, why};
}
inline DeepSpeedKey feature(const char* path, const char* instead = "") {
  return {path, DeepSpeedKey::Role::feature, {}, {}, instead};
}
inline DeepSpeedKey refused(const char* path, const char* instead) {
  return {path, DeepSpeedKey::Role::refused, {}, {}, instead};
}
inline DeepSpeedKey absent(const char* path, const Value& type, std::vector<std::string> harmless, const char* instead = "",
                           const Allowed& allowed = any()) {
  return {path, DeepSpeedKey::Role::absent, type, allowed, instead, std::move(harmless)};
}
/// A key that allows the same values as the option.
inline DeepSpeedKey option(const char* path, const char* name) {
  static const Options defaults;
  const Row& row = *find(name);
  return {path, DeepSpeedKey::Role::option, row.member.get(defaults), row.allowed, name};
}

/// The keys of zero_optimization.
Keys zero_keys();
/// The keys of offload, aio and activation checkpointing.
Keys offload_keys();

}  // namespace shoal::config
