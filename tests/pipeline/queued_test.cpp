// SPDX-License-Identifier: Apache-2.0
// Stages whose work is enqueued, on the simulated device: borders are in its memory, and go through NCCL (its double) or
// MPI. Two pipelines work side by side, and add up gradients over both while messages are in flight.
#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <optional>

#include "shoal/base/error.hpp"
#include "shoal/device/cells.hpp"
#include "shoal/device/memory.hpp"
#include "shoal/device/queue.hpp"
#include "shoal/device/unit.hpp"
#include "shoal/kernels/bytes.hpp"
#include "shoal/kernels/storage.hpp"
#include "shoal/pipeline/runner.hpp"
#include "support/mpi_main.hpp"

namespace shoal::pipeline {
namespace {

constexpr std::size_t elements = 96, most_turns = 6;

/// What part m adds in turn t of a step: whole numbers, so that sums are exact.
float addend(bool forward, std::size_t part, std::size_t turn, std::size_t step) {
  return static_cast<float>(1 + (forward ? 3 : 5) * part + 17 * turn + 131 * step);
}

/// What a skip connection's ends add to what it carries.
float skipped(bool forward, std::size_t turn, std::size_t step) {
  return static_cast<float>((forward ? 1009 : 2003) + 19 * turn + 137 * step);
}

/// Forward, a part adds a number. Backward, it adds its input and a number. A skip connection's activations and their
/// gradients are added by the part that reads them, too.
class Adding final : public Stage {
 public:
  Adding(const ScheduleShape& shape, comm::Communicator& data, Memory& memory)
      : shape_(shape),
        data_(data),
        scratch_(memory.take<float>(Kind::buffers, elements, "addends")),
        activations_(memory.take<float>(Kind::buffers, elements * most_turns, "results of forward passes")),
        gradients_(memory.take<float>(Kind::buffers, elements * most_turns, "results of backward passes")),
        sums_(memory.take<float>(Kind::buffers, 16 * most_turns * 8, "sums over pipelines", shoal::Use::collectives)) {}

  void begin(std::size_t step) {
    step_ = step;
    number_ = 0;
  }
  void finish() { requests_.clear(); }  // waits

  void forward(int part, std::size_t turn, const Borders& borders) override {
    const auto& [in, out, skip_in, skip_out] = borders;
    float* const to = out.empty() ? at(activations_, turn) : floats(out);
    if (in.empty()) {
      kernels::fill(elements, 0, to);
    } else {
      kernels::copy_bytes(in.size(), in.data(), to);
    }
    kept_[{part, turn}] = in;
    add(addend(true, of_model(part), turn, step_), to);
    if (!skip_in.empty()) kernels::add(DType::f32, elements, skip_in.data(), to);
    if (skip_out.empty()) return;
    if (skip_in.empty()) {
      kernels::fill(elements, 0, floats(skip_out));
    } else {
      kernels::copy_bytes(skip_in.size(), skip_in.data(), skip_out.data());
    }
    add(skipped(skip_in.empty(), turn, step_), floats(skip_out));
  }

  void backward(int part, std::size_t turn, const Borders& borders) override {
    const auto& [in, out, skip_in, skip_out] = borders;
    float* const to = out.empty() ? at(gradients_, turn) : floats(out);
    if (in.empty()) {
      kernels::fill(elements, 0, to);
    } else {
      kernels::copy_bytes(in.size(), in.data(), to);
      kernels::fill(elements, -1, floats(in));
    }
    if (const Span<std::byte> kept = kept_.at({part, turn}); !kept.empty()) {
      kernels::add(DType::f32, elements, kept.data(), to);
    }
    add(addend(false, of_model(part), turn, step_), to);
    if (!skip_in.empty()) kernels::add(DType::f32, elements, skip_in.data(), to);
    // As gradients of units are reduced while the stage goes on.
    const Span<float> sum = sums_.subspan(16 * number_++, 16);
    kernels::fill(sum.size(), 1, sum.data());
    requests_.push_back(data_.all_reduce(sum, comm::Reduce::sum));
  }

  /// The first and the last element of a turn's result, and whether all sums are right.
  std::vector<float> results(bool of_forward, std::size_t turns) const {
    std::vector<float> all(elements * turns), ends;
    device::copy(all.size() * sizeof(float), (of_forward ? activations_ : gradients_).data(), all.data());
    device::wait_for_queue();
    for (std::size_t t = 0; t < turns; ++t) {
      ends.push_back(all[t * elements]);
      ends.push_back(all[t * elements + elements - 1]);
    }
    return ends;
  }
  bool sums_are(float value) const {
    std::vector<float> all(16 * number_);
    device::copy(all.size() * sizeof(float), sums_.data(), all.data());
    device::wait_for_queue();
    return all == std::vector<float>(all.size(), value);
  }

 private:
  static float* floats(Span<std::byte> border) { return reinterpret_cast<float*>(border.data()); }
  static float* at(Span<float> results, std::size_t turn) { return results.data() + turn * elements; }
  std::size_t of_model(int part) const { return static_cast<std::size_t>(part_of_model(shape_, part)); }
  void add(float number, float* to) {
    kernels::fill(elements, number, scratch_.data());
    kernels::add(DType::f32, elements, scratch_.data(), to);
  }

  ScheduleShape shape_;
  comm::Communicator& data_;
  Span<float> scratch_, activations_, gradients_, sums_;
  std::map<std::pair<int, std::size_t>, Span<std::byte>> kept_;
  std::size_t step_ = 0, number_ = 0;
  std::vector<comm::Request> requests_;
};

/// The same by arithmetic. Twice each, as Adding::results().
std::vector<float> expected(bool of_forward, const ScheduleShape& shape, std::size_t step) {
  std::vector<float> results;
  const auto parts = static_cast<std::size_t>(parts_of_model(shape));
  for (std::size_t turn = 0; turn < shape.turns; ++turn) {
    float x = 0, gradient = 0;
    for (std::size_t part = 0; part < parts; ++part) {
      gradient += x + addend(false, part, turn, step);
      x += addend(true, part, turn, step);
      if (!shape.skip) continue;
      if (part + 1 == parts) x += skipped(true, turn, step);
      if (part == 0) gradient += skipped(true, turn, step) + skipped(false, turn, step);
    }
    results.insert(results.end(), 2, of_forward ? x : gradient);
  }
  return results;
}

void expect_right_results(comm::Backend backend, Schedule schedule, ScheduleShape shape) {
  SCOPED_TRACE(text(row_of(schedule).name, ", ", shape.parts, " parts, ", shape.turns, " turns",
                    shape.skip ? ", a skip connection" : ""));
  comm::World& world = shoal::test::world();
  comm::CommOptions options;
  options.backend = backend;
  world.make_groups(options, {1, shape.stages});
  comm::Communicator& group = world.pipeline();
  ASSERT_EQ(group.queued(), backend == comm::Backend::nccl);
  shape.stage = group.rank();
  std::optional<Runner> runner;
  std::optional<Adding> stage;
  const device::DeviceMemory memory([&](Memory& taken_from) {
    runner.emplace(&group, lists_of(schedule, shape), shape, elements * sizeof(float), taken_from);
    stage.emplace(shape, world.data(), taken_from);
  });
  for (const std::size_t step : {1, 2, 3}) {
    stage->begin(step);
    runner->train(*stage);
    stage->finish();
    EXPECT_TRUE(stage->sums_are(static_cast<float>(world.data().size()))) << "step " << step;
    if (shape.stage == 0) {
      EXPECT_EQ(stage->results(false, shape.turns), expected(false, shape, step)) << "step " << step;
    }
    if (shape.stage + 1 == shape.stages) {
      EXPECT_EQ(stage->results(true, shape.turns), expected(true, shape, step)) << "step " << step;
    }
    stage->begin(step);
    runner->evaluate(shape.turns, *stage);
    if (shape.stage + 1 == shape.stages) {
      EXPECT_EQ(stage->results(true, shape.turns), expected(true, shape, step)) << "evaluation after step " << step;
    }
  }
  runner.reset();
}

struct Carrier {
  const char* name;
  comm::Backend backend;
  device::Reach reach;
};
constexpr std::array carriers = {Carrier{"nccl", comm::Backend::nccl, device::Reach::collectives},
                                 Carrier{"mpi", comm::Backend::mpi, device::Reach::collectives},
                                 Carrier{"mpi_through_the_host", comm::Backend::mpi, device::Reach::nothing}};

class Queued : public testing::TestWithParam<Carrier> {
 protected:
  Queued() { device::open({0, 1, GetParam().reach}); }
  ~Queued() override {
    device::open({});
    shoal::test::world().make_groups({});
  }
};

TEST_P(Queued, StagesComputeWhatArithmeticSays) {
  const int stages = shoal::test::world().size() % 3 == 0 ? 3 : 2;
  for (const std::size_t turns : {stages == 3 ? std::size_t{3} : std::size_t{4}, most_turns}) {
    for (const bool skip : {false, true}) {
      expect_right_results(GetParam().backend, Schedule::one_f_one_b, {stages, 0, 1, turns, skip});
      expect_right_results(GetParam().backend, Schedule::gpipe, {stages, 0, 2, turns, skip});
      expect_right_results(GetParam().backend, Schedule::interleaved, {stages, 0, 2, turns, skip});
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Over, Queued, testing::ValuesIn(carriers),
                         [](const auto& carrier) { return std::string(carrier.param.name); });

}  // namespace
}  // namespace shoal::pipeline
