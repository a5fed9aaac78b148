// SPDX-License-Identifier: Apache-2.0
// Files whose data lie on the simulated device, which the host can read and write only in pieces.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "io/files/files.hpp"
#include "io/scratch.hpp"
#include "io/tensors.hpp"
#include "shoal/device/cells.hpp"
#include "shoal/device/memory.hpp"
#include "shoal/device/timing.hpp"
#include "shoal/io/background_save.hpp"
#include "shoal/io/safetensors.hpp"
#include "shoal/io/trace_file.hpp"
#include "support/mpi_main.hpp"

namespace shoal::test {
namespace {

using io::IoMode;
using testing::HasSubstr;

/// The first tensor has several pieces on each rank.
const std::vector<Shape>& model() {
  static const std::vector<Shape> shapes = {
      {"/parameters/weight", {1200, 1001}}, {"/parameters/bias", {7}}, {"/moments/first/bias", {7}}};
  return shapes;
}

io::CheckpointState some_state() { return {1, "[train]\nsteps = 1\n", {{"train.seed", "7"}}}; }

/// This rank's slices of the tensors, on the device.
class OnDevice {
 public:
  explicit OnDevice(bool fill) {
    memory_ = std::make_unique<device::DeviceMemory>([&](Memory& memory) { take(memory); });
    if (!fill) return;
    for (const io::TensorSlice& slice : slices) {
      device::in_pieces(slice.values, device::Access::write, 1, [&](std::size_t first, Span<float> piece) {
        for (std::size_t i = 0; i < piece.size(); ++i) {
          piece[i] = value_at(slice.dataset, slice.range.begin + first + i);
        }
      });
    }
  }

  void expect_values() const {
    for (const io::TensorSlice& slice : slices) {
      ASSERT_TRUE(slice.range.empty() || device::holds(slice.values.data()));
      device::in_pieces(slice.values, device::Access::read, 1, [&](std::size_t first, Span<float> piece) {
        for (std::size_t i = 0; i < piece.size(); ++i) {
          const std::size_t element = slice.range.begin + first + i;
          ASSERT_EQ(piece[i], value_at(slice.dataset, element)) << slice.dataset << " element " << element;
        }
      });
    }
  }

  std::vector<io::TensorSlice> slices;

 private:
  void take(Memory& memory) {
    slices.clear();
    for (const Shape& s : model()) {
      const Range range = part_of(elements_of(s.shape), world().all().rank(), world().all().size());
      slices.push_back({s.name, s.shape, range, memory.take<float>(Kind::parameters, range.size(), s.name)});
    }
    pieces_ = std::make_unique<device::PieceMemory>(memory, "pieces");
  }

  std::unique_ptr<device::DeviceMemory> memory_;
  std::unique_ptr<device::PieceMemory> pieces_;
};

/// What a run on the host would read from the file.
void expect_on_host(const std::filesystem::path& file) {
  Tensors target = cut(model(), world().all().rank(), world().all().size(), false);
  io::load_checkpoint(world(), file, target.slices);
  for (const io::TensorSlice& slice : target.slices) {
    for (std::size_t i = 0; i < slice.values.size(); ++i) {
      ASSERT_EQ(slice.values[i], value_at(slice.dataset, slice.range.begin + i)) << slice.dataset << " element " << i;
    }
  }
}

class DeviceCheckpoint : public testing::TestWithParam<IoMode> {};

TEST_P(DeviceCheckpoint, IsWrittenAndRead) {
  Scratch scratch(&world().all());
  const auto file = scratch.path() / "step_00000001.h5";
  const OnDevice source(true);
  io::save_checkpoint(world(), file, some_state(), source.slices, GetParam());
  expect_on_host(file);
  const OnDevice target(false);
  io::load_checkpoint(world(), file, target.slices);
  target.expect_values();
}
INSTANTIATE_TEST_SUITE_P(Modes, DeviceCheckpoint, testing::Values(IoMode::independent, IoMode::collective));

TEST(DeviceCheckpoints, AreWrittenInTheBackgroundFromACopyOnTheHost) {
  Scratch scratch(&world().all());
  const auto file = scratch.path() / "step_00000001.h5";
  const OnDevice source(true);
  std::vector<float> copy(io::BackgroundSave::copy_elements(source.slices));
  io::BackgroundSave save(world(), copy);
  save.start(file, some_state(), source.slices);
  save.finish();
  expect_on_host(file);
}

TEST(DeviceWeights, AreReadFromSafetensors) {
  Scratch scratch(&world().all());
  const auto file = scratch.path() / "model.safetensors";
  if (world().all().rank() == 0) {
    io::SafetensorsWriter writer(file, {{"weight", {1200, 1001}}});
    std::vector<float> values(1200 * 1001);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = value_at(model().front().name, i);
    writer.append(values);
    writer.finish();
  }
  world().all().barrier().wait();
  OnDevice target(false);
  const io::TensorSlice weight = target.slices.front();
  io::Safetensors(file).read("weight", weight.range, weight.values);
  target.slices.resize(1);
  target.expect_values();
}

TEST(DeviceFile, NamesTheDeviceIfItsMemoryIsPassedToTheSystem) {
  Scratch scratch(&world().all());
  const OnDevice source(false);
  const Span<float> values = source.slices.front().values;
  const auto path = scratch.path() / ("data_" + std::to_string(world().all().rank()));
  io::File file(path, io::File::Mode::create);
  const auto message = [&](const auto& act) -> std::string {
    try {
      act();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(message([&] { file.write(0, std::as_bytes(values)); }),
              AllOf(HasSubstr(path.string()), HasSubstr("the device's memory"), HasSubstr("in_pieces")));
  EXPECT_THAT(message([&] { file.read(0, std::as_writable_bytes(values)); }), HasSubstr("the device's memory"));
  EXPECT_EQ(file.size(), 0U);
}

TEST(DeviceTrace, TellsWhatWasNotTimed) {
  Scratch scratch(&world().all());
  const auto file = scratch.path() / "trace.h5";
  std::vector<float> values(16);
  const OnDevice target(false);
  trace::start(trace::Level::kernels, 100);
  device::start_timing(2);
  {
    io::TraceFile out(world(), file, {});
    for (int round = 0; round < 2; ++round) {
      for (int i = 0; i < 5; ++i) device::copy(4, values.data(), target.slices.front().values.data());
      device::wait_for_device();
      out.flush();
    }
    out.close();
  }
  trace::stop();
  world().all().barrier().wait();
  const io::TraceContents contents = io::describe_trace(file, true);
  EXPECT_EQ(contents.queues, (std::vector<std::string>{"compute", "gather", "reduce"}));
  EXPECT_EQ(contents.untimed_spans, 2 * 3 * world().size());
  EXPECT_EQ(std::count(contents.names.begin(), contents.names.end(), "copy to device"), 1);
}

}  // namespace
}  // namespace shoal::test
