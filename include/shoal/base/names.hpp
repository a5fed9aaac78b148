// SPDX-License-Identifier: Apache-2.0
// Enums whose values have names that people read and write, such as sync.kind = slowmo. One table per enum holds a row for
// each value, in the order of the enum: the value, its name, and what else depends on it.
//
//     enum class Shape { circle, square };
//     struct ShapeRow {
//       Shape value;
//       const char* name;
//       int corners;
//     };
//     inline constexpr std::array shapes = {ShapeRow{Shape::circle, "circle", 0}, ShapeRow{Shape::square, "square", 4}};
//     constexpr const auto& table_of(Shape) { return shapes; }
//
// table_of() belongs into the namespace of the enum: the functions below find it by argument-dependent lookup.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "shoal/base/types.hpp"

namespace shoal {

/// A row of a table without further columns.
template <typename E>
struct Named {
  E value;
  const char* name;
};
template <typename E>
Named(E, const char*) -> Named<E>;  // clang before 17 does not deduce it from the members

template <typename E>
concept HasNames = std::is_enum_v<E> && requires(E value) {
  table_of(value);
};

/// Row i of a table is that of the enum's value i.
template <typename Rows>
constexpr bool in_order(const Rows& rows) {
  std::size_t i = 0;
  for (const auto& row : rows) {
    if (static_cast<std::size_t>(row.value) != i++) return false;
  }
  return true;
}

template <HasNames E>
constexpr const auto& row_of(E value) {
  static_assert(in_order(table_of(E{})));
  return table_of(value).at(static_cast<std::size_t>(value));
}

template <HasNames E>
constexpr const char* name_of(E value) {
  return row_of(value).name;
}

/// All names, in the order of the enum.
template <HasNames E>
std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const auto& row : table_of(E{})) all.emplace_back(row.name);
  return all;
}

/// The value of this name; none if the enum has no such name.
template <HasNames E>
constexpr std::optional<E> value_named(std::string_view name) {
  for (const auto& row : table_of(E{})) {
    if (row.name == name) return row.value;
  }
  return std::nullopt;
}

inline constexpr std::array dtype_names = {Named{DType::f32, "fp32"}, Named{DType::bf16, "bf16"}, Named{DType::f16, "fp16"}};
constexpr const auto& table_of(DType) { return dtype_names; }

}  // namespace shoal
