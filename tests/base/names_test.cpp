// SPDX-License-Identifier: Apache-2.0
#include "shoal/base/names.hpp"

#include <gtest/gtest.h>

namespace elsewhere {

enum class Shape { circle, square };
struct ShapeRow {
  Shape value;
  const char* name;
  int corners;
};
constexpr std::array shapes = {ShapeRow{Shape::circle, "circle", 0}, ShapeRow{Shape::square, "square", 4}};
constexpr const auto& table_of(Shape) { return shapes; }

}  // namespace elsewhere

namespace shoal {
namespace of_names_test {

using elsewhere::Shape;

static_assert(row_of(Shape::square).corners == 4);
static_assert(value_named<Shape>("circle") == Shape::circle);
static_assert(!value_named<Shape>("Circle"));
static_assert(!in_order(std::array{Named{Shape::square, "square"}, Named{Shape::circle, "circle"}}));

TEST(Names, AreThoseOfTheTable) {
  EXPECT_EQ(names<Shape>(), (std::vector<std::string>{"circle", "square"}));
  EXPECT_STREQ(name_of(Shape::square), "square");
}

TEST(Names, OfDTypesAreThoseOfDecks) {
  EXPECT_EQ(names<DType>(), (std::vector<std::string>{"fp32", "bf16", "fp16"}));
  EXPECT_EQ(value_named<DType>("fp16"), DType::f16);
}

}  // namespace of_names_test
}  // namespace shoal
