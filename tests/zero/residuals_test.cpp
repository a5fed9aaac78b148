// SPDX-License-Identifier: Apache-2.0
// The residuals of quantized gradients are errors of gradients of the scaled loss, so they change with the loss scale.
#include <gtest/gtest.h>

#include "kernels/runtime_environment.hpp"
#include "shoal/device/memory.hpp"
#include "shoal/zero/engine.hpp"
#include "small_gpt.hpp"
#include "support/mpi_main.hpp"

namespace shoal::zero::test {
namespace of_residuals_test {

comm::World& world() { return shoal::test::world(); }

/// Every rank is a node: all that it sends is quantized, and leaves a residual.
EngineOptions options() {
  EngineOptions o = small_gpt(3);
  o.dtype = DType::f16;
  o.zero.qgz = 8;
  o.zero.quant_feedback = true;
  o.gradients.quantized = quantized_reduction(o.zero, 1);
  return o;
}

class Residuals : public testing::Test {
 protected:
  Residuals() {
    world().make_groups(shoal::test::comm_options(1));
    RankGroups groups{world().all().rank(), world().all().size(), nullptr};
    Memory counting(device::images());
    const Engine planned(options(), groups, counting);
    memory_.emplace(counting.taken());
    groups.group = &world().all();
    groups.node = &world().node();
    groups.across = &world().across();
    engine_.emplace(options(), groups, *memory_);
    engine_->read_residuals_of(1024);
    for (std::size_t i = 0; i < own().size(); ++i) own()[i] = value(i);
  }
  ~Residuals() override {
    engine_.reset();
    world().make_groups(shoal::test::comm_options());
  }

  /// This rank's residuals.
  Span<float> own() {
    const std::vector<NamedSlice> slices = engine_->residual_slices();
    return slices.at(static_cast<std::size_t>(world().all().rank())).values;
  }
  /// Some have a last bit that would be lost if they were added to anything.
  static float value(std::size_t i) { return (i % 2 == 0 ? 1.0F : -1.0F) * (1 + static_cast<float>(i % 1000) * 0x1p-23F); }

  void expect_times(float factor) {
    ASSERT_GT(own().size(), 1000U);
    for (std::size_t i = 0; i < own().size(); ++i) ASSERT_EQ(own()[i], factor * value(i)) << "element " << i;
  }

  std::optional<device::DeviceMemory> memory_;
  std::optional<Engine> engine_;
};

TEST_F(Residuals, AreHalvedWithTheLossScale) {
  engine_->scale_losses(512);
  expect_times(0.5F);
}

TEST_F(Residuals, AreDoubledWithTheLossScale) {
  engine_->scale_losses(2048);
  expect_times(2);
}

TEST_F(Residuals, StayAsTheyAreWithTheSameLossScale) {
  engine_->scale_losses(1024);
  expect_times(1);
}

TEST_F(Residuals, FollowSeveralChanges) {
  for (const double scale : {512.0, 256.0, 64.0, 4096.0}) engine_->scale_losses(scale);
  expect_times(4);
}

}  // namespace of_residuals_test
}  // namespace shoal::zero::test
