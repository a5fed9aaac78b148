// SPDX-License-Identifier: Apache-2.0
// Residuals of quantized gradients are resumed if messages are divided as before, and are zero otherwise, whatever was
// there.
#include "app/checkpoint/resume.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "app/checkpoint/checkpoint_state.hpp"
#include "io/scratch.hpp"
#include "support/mpi_main.hpp"

namespace shoal::app {
namespace of_resume_test {

using testing::Each;

constexpr double buckets_mb = 0.02, smaller_buckets_mb = 0.005;

comm::World& world() { return test::world(); }

/// Makes every rank a node while it exists.
struct NodesOfOneRank {
  NodesOfOneRank() { world().make_groups(test::comm_options(1)); }
  ~NodesOfOneRank() { world().make_groups(test::comm_options()); }
  NodesOfOneRank(const NodesOfOneRank&) = delete;
  NodesOfOneRank& operator=(const NodesOfOneRank&) = delete;
};

/// A machine whose residuals are all `value`.
struct Filled {
  Filled(const config::Options& options, float value)
      : resolved(resolve(world(), options, world().size(), Purpose::train)), assembly(resolved, world()) {
    assembly.engine.initialize(1);
    assembly.engine.wait_for_parameters();
    for (float& residual : own()) residual = value;
  }
  Span<float> own() {
    const std::vector<NamedSlice> slices = assembly.engine.residual_slices();
    return slices.at(static_cast<std::size_t>(world().all().rank())).values;
  }
  ResolvedRun resolved;
  Assembly assembly;
};

class ResumedResiduals : public testing::Test {
 protected:
  config::Options options(double bucket_mb) const {
    config::Options o;
    o.model = {.n_layer = 2, .n_head = 2, .n_embd = 32, .block_size = 8, .vocab_size = 32, .init_from = ""};
    o.batch.micro = 1;
    o.batch.global = 4;
    o.schedule.total_steps = 4;
    o.zero.stage = 3;
    o.zero.qgz = 8;
    o.zero.quant_feedback = true;
    o.comm.bucket_mb = bucket_mb;
    o.checkpoint.dir = scratch_.path().string();
    o.output.dir = (scratch_.path() / "none").string();
    return o;
  }

  /// Resumes a machine whose residuals were 7 from a checkpoint in which they are 3.
  std::vector<float> resumed(double bucket_mb_of_checkpoint, double bucket_mb) {
    Filled before(options(bucket_mb_of_checkpoint), 3);
    const auto file = scratch_.path() / io::checkpoint_name(2);
    const CheckpointContents contents = contents_to_write(before.resolved.options, before.assembly, 2, {});
    io::save_checkpoint(world(), file, contents.state, contents.slices, io::IoMode::automatic);
    config::Options o = options(bucket_mb);
    o.checkpoint.resume = file.string();
    Filled after(o, 7);
    const bool same = before.assembly.engine.residual_layout() == after.assembly.engine.residual_layout();
    EXPECT_EQ(same, bucket_mb == bucket_mb_of_checkpoint);
    const auto directory = open_checkpoint_directory(world(), o);
    EXPECT_TRUE(resume(world(), after.resolved, after.assembly, directory.get()).has_value());
    return {after.own().begin(), after.own().end()};
  }

  NodesOfOneRank nodes_;
  test::Scratch scratch_{&world().all()};
};

TEST_F(ResumedResiduals, AreThoseOfTheCheckpointIfMessagesAreDividedAsBefore) {
  const std::vector<float> residuals = resumed(buckets_mb, buckets_mb);
  ASSERT_FALSE(residuals.empty());
  EXPECT_THAT(residuals, Each(3));
}

TEST_F(ResumedResiduals, AreZeroIfMessagesAreDividedInAnotherWay) {
  const std::vector<float> residuals = resumed(buckets_mb, smaller_buckets_mb);
  ASSERT_FALSE(residuals.empty());
  EXPECT_THAT(residuals, Each(0));
}

}  // namespace of_resume_test
}  // namespace shoal::app
