// SPDX-License-Identifier: Apache-2.0
// Checkpoints and traces are plain HDF5 files: h5py opens them without anything from shoal.
#include <cstdio>
#include <cstdlib>

#include "io/scratch.hpp"
#include "io/tensors.hpp"
#include "shoal/base/trace.hpp"
#include "shoal/io/checkpoint.hpp"
#include "shoal/io/trace_file.hpp"
#include "support/mpi_main.hpp"

namespace shoal::test {
namespace of_h5py_test {

/// Exit status of a program that rank 0 runs; 0 on other ranks.
int python(const Scratch& scratch, const std::string& program) {
  world().all().barrier().wait();
  std::int64_t status = 0;
  if (scratch.owner()) {
    write_all(scratch.path() / "program.py", program);
    status = std::system(("cd " + scratch.path().string() + " && /usr/bin/python3 program.py").c_str());
  }
  world().all().all_reduce(Span<std::int64_t>(&status, 1), comm::Reduce::max).wait();
  return static_cast<int>(status);
}

class H5py : public testing::Test {
 protected:
  H5py() : scratch_(&world().all()) {}
  void SetUp() override {
    if (python(scratch_, "import h5py, numpy\n") == 0) return;
    GTEST_SKIP() << "/usr/bin/python3 has no h5py; that it reads our files is not tested";
  }
  Scratch scratch_;
};

TEST_F(H5py, ReadsACheckpoint) {
  const Tensors tensors = cut({{"/parameters/a.weight", {33, 5}}, {"/moments/first/a.weight", {33, 5}}},
                              world().all().rank(), world().all().size(), false);
  for (const io::TensorSlice& slice : tensors.slices) {
    for (std::size_t i = 0; i < slice.values.size(); ++i) slice.values[i] = static_cast<float>(slice.range.begin + i);
  }
  io::save_checkpoint(world(), scratch_.path() / "step_00000007.h5", {7, "[train]\nsteps = 7\n", {{"seed", "3"}}},
                      tensors.slices, io::IoMode::automatic);
  EXPECT_EQ(python(scratch_, R"(
import h5py, numpy
with h5py.File("step_00000007.h5", "r") as f:
    assert f.attrs["step"] == 7 and f.attrs["format_version"] == 1 and f.attrs["program"] == "shoal"
    assert f["deck"].asstr()[()] == "[train]\nsteps = 7\n"
    assert f["scalars"].attrs["seed"] == "3"
    for name in ("parameters", "moments/first"):
        d = f[name]["a.weight"]
        assert d.dtype == numpy.float32 and d.shape == (33, 5) and len(d.attrs["checksum"]) == 16
        assert (d[()] == numpy.arange(165).reshape(33, 5)).all()
)"),
            0);
}

TEST_F(H5py, ReadsATrace) {
  trace::start(trace::Level::steps, 100);
  {
    const comm::GroupKind all{"world", std::vector<int>(static_cast<std::size_t>(world().size()), 0)};
    io::TraceFile out(world(), scratch_.path() / "trace.h5",
                      {"0.1.0", {{"zero.stage", "1"}}, {}, {"wte"}, {all}, {1}, 5'000'000'000, "a text", {"zero.stage"}});
    trace::counter("memory/resident", 42);
    out.close();
  }
  trace::stop();
  EXPECT_EQ(python(scratch_, R"(
import h5py
with h5py.File("trace.h5", "r") as f:
    assert f.attrs["complete"] == 1 and f.attrs["level"] == "steps" and f["options"].attrs["zero.stage"] == "1"
    assert f.attrs["parameters"] == 5000000000 and f.attrs["data"] == "a text" and list(f["changed"].asstr()) == ["zero.stage"]
    e = f["events"][()]
    assert len(e) == 512 * f.attrs["world_size"]
    e = e[e["kind"] != 65535]  # rows that fill up chunks
    clock = list(f["names"].asstr()).index("clock/barrier")
    e = e[e["name"] != clock]
    assert len(e) == f.attrs["world_size"] and set(e["rank"]) == set(range(f.attrs["world_size"]))
    assert all(e["bytes"] == 42) and all(f["names"].asstr()[i] == "memory/resident" for i in e["name"])
    assert all(f["kinds"].asstr()[i] == "counter" for i in e["kind"]) and len(f["machine/hosts"]) == len(e)
)"),
            0);
}

}  // namespace of_h5py_test
}  // namespace shoal::test
