// SPDX-License-Identifier: Apache-2.0
// The trace on several ranks: it has every rank's events, in the rank's order, with one table of names.
#include "shoal/io/trace_file.hpp"

#include <hdf5.h>

#include <chrono>

#include "io/scratch.hpp"
#include "io/trace/trace_types.hpp"
#include "shoal/base/trace.hpp"
#include "shoal/io/hdf5.hpp"
#include "shoal/io/injected.hpp"
#include "support/mpi_main.hpp"

namespace shoal::test {
namespace of_trace_file_test {

namespace fs = std::filesystem;
using testing::HasSubstr;

io::TraceHeader some_header() {
  io::TraceHeader header;
  header.version = "0.1.0";
  header.options = {{"zero.stage", "1"}, {"train.steps", "20"}};
  header.machine = {{"device", "a processor"}};
  header.units = {"wte", "h.0"};
  header.groups = {{"world", std::vector<int>(static_cast<std::size_t>(world().size()), 0)}};
  header.unit_elements = {4096, 5'000'000'000};
  return header;
}

template <typename T>
std::vector<T> read_rows(const fs::path& file, const char* name) {
  const io::hdf5::Handle h5 = io::hdf5::open_file(file), dataset = io::hdf5::open_dataset(h5, name);
  const io::hdf5::Handle type(H5Dget_type(dataset.id()), H5Tclose, name);
  EXPECT_EQ(H5Tget_size(type.id()), sizeof(T));
  std::size_t count = 1;
  for (const auto length : io::hdf5::shape_of(dataset, name)) count *= length;
  std::vector<T> rows(count);
  EXPECT_GE(H5Dread(dataset.id(), type.id(), H5S_ALL, H5S_ALL, H5P_DEFAULT, rows.data()), 0);
  return rows;
}

struct Flush {
  std::int32_t flush, rank;
  std::uint64_t first, count, dropped;
};

/// Records events of this rank. Their names are in an order of its own, and some exist on no other rank.
std::vector<std::string> record(int count, int round) {
  const int rank = world().all().rank();
  std::vector<std::string> names;
  for (int i = 0; i < count; ++i) {
    names.push_back(text("kernel ", (i * (rank + 1) + round) % 5, i % 7 == 0 ? text(" of rank ", rank) : std::string()));
    trace::Event event;
    event.begin_ns = 1000 * round + i;
    event.duration_ns = rank;
    event.bytes = static_cast<std::uint64_t>(i);
    event.name = trace::name_index(names.back());
    event.step = round;
    event.unit = 1;
    event.kind = static_cast<std::uint16_t>(trace::Kind::kernel);
    event.micro = 3;
    event.depth = 2;
    trace::record(event);
  }
  return names;
}

/// Counters clock/barrier of a rank in each flush.
unsigned clock_readings() { return world().all().size() > 1 ? 4 : 0; }

TEST(TraceFile, HoldsEveryRanksEventsInOrder) {
  Scratch scratch(&world().all());
  const fs::path file = scratch.path() / "trace.h5";
  const int rank = world().all().rank(), size = world().all().size();
  trace::start(trace::Level::steps, 20'000);
  std::vector<std::vector<std::string>> recorded;
  {
    io::TraceFile out(world(), file, some_header());
    // More than a chunk of 512 rows, less, whole chunks, nothing on some ranks, nothing at all.
    for (const int count : {6000 + rank, 10, rank == 0 ? 0 : 4096, 0, 1}) {
      recorded.push_back(record(count, static_cast<int>(recorded.size())));
      out.flush();
    }
    out.close();
  }
  trace::stop();
  world().all().barrier().wait();

  const auto flushes = read_rows<Flush>(file, "/flushes");
  const auto events = read_rows<trace::Event>(file, "/events");
  const io::hdf5::Handle h5 = io::hdf5::open_file(file);
  const std::vector<std::string> names = io::hdf5::read_texts(h5, "/names"), kinds = io::hdf5::read_texts(h5, "/kinds");
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), names.size());
  ASSERT_EQ(flushes.size(), (recorded.size() + 1) * static_cast<std::size_t>(size));  // close() adds one
  std::uint64_t row = 0;
  std::size_t readings = 0;
  for (std::size_t i = 0; i < flushes.size(); ++i) {
    const Flush& f = flushes[i];
    EXPECT_EQ(f.flush, static_cast<int>(i) / size);
    EXPECT_EQ(f.rank, static_cast<int>(i) % size);
    EXPECT_EQ(f.first, row);
    EXPECT_EQ(f.dropped, 0U);
    row += (f.count + io::trace_chunk_rows - 1) / io::trace_chunk_rows * io::trace_chunk_rows;
    for (std::uint64_t r = f.first + f.count; r < row; ++r) {
      ASSERT_EQ(events.at(r).kind, 0xFFFF) << r;  // rows that fill up a chunk are no events of any kind, name or rank
      ASSERT_EQ(events.at(r).name, -1) << r;
      ASSERT_EQ(events.at(r).reserved, -1) << r;
    }
    const auto round = static_cast<std::size_t>(f.flush);
    if (f.rank != rank || round >= recorded.size()) continue;
    std::size_t at = 0;
    for (std::uint64_t r = f.first; r < f.first + f.count; ++r) {
      const trace::Event& e = events.at(r);
      EXPECT_EQ(e.reserved, rank);
      const std::string name = names.at(static_cast<std::size_t>(e.name));
      if (name == "trace/flush") {
        EXPECT_EQ(kinds.at(e.kind), "io");
        continue;
      }
      if (name == "clock/barrier") {
        EXPECT_EQ(kinds.at(e.kind), "counter");
        EXPECT_EQ(e.bytes, round);
        ++readings;
        continue;
      }
      ASSERT_LT(at, recorded[round].size());
      EXPECT_EQ(name, recorded[round][at]);
      EXPECT_EQ(kinds.at(e.kind), "kernel");
      EXPECT_EQ(e.begin_ns, static_cast<std::int64_t>(1000 * round + at));
      EXPECT_EQ(e.bytes, at);
      EXPECT_EQ(e.duration_ns, rank);
      ++at;
    }
    EXPECT_EQ(at, recorded[round].size());
  }
  EXPECT_EQ(events.size(), row);
  EXPECT_EQ(readings, clock_readings() * recorded.size()) << "of this rank";
}

TEST(TraceFile, DescribesTheRun) {
  Scratch scratch(&world().all());
  const fs::path file = scratch.path() / "trace.h5";
  trace::start(trace::Level::steps, 10);
  {
    io::TraceFile out(world(), file, some_header());
    record(25, 0);  // 15 more than fit into the buffer
    out.flush();
    world().all().barrier().wait();
    const io::TraceContents growing = io::describe_trace(file);  // it can be read while it grows
    EXPECT_FALSE(growing.complete);
    EXPECT_EQ(growing.events, 10U * static_cast<unsigned>(world().all().size()));
    world().all().barrier().wait();
    out.close();
  }
  trace::stop();
  world().all().barrier().wait();
  const io::TraceContents contents = io::describe_trace(file);
  EXPECT_EQ(contents.format_version, 3);
  EXPECT_TRUE(contents.queues.empty()) << "the host computes";
  EXPECT_EQ(contents.untimed_spans, 0);
  EXPECT_EQ(contents.world_size, world().all().size());
  EXPECT_EQ(contents.level, "steps");
  EXPECT_TRUE(contents.complete);
  EXPECT_EQ(contents.dropped, (15U + clock_readings()) * static_cast<unsigned>(world().all().size()));
  const io::hdf5::Handle h5 = io::hdf5::open_file(file);
  EXPECT_EQ(io::hdf5::text_attributes(io::hdf5::open_group(h5, "options")), some_header().options);
  EXPECT_EQ(io::hdf5::read_texts(h5, "/machine/hosts"), world().topology().hosts);
  EXPECT_EQ(io::hdf5::read_texts(h5, "/units"), some_header().units);
  EXPECT_EQ(read_rows<std::uint64_t>(file, "unit_elements"), some_header().unit_elements);
  EXPECT_EQ(io::hdf5::read_texts(h5, "/groups"), std::vector<std::string>{"world"});
  std::vector<std::int32_t> numbers;  // on one node, the local rank is the rank
  for (int rank = 0; rank < world().size(); ++rank) numbers.push_back(rank);
  const std::vector<std::int32_t> zeros(numbers.size(), 0);
  EXPECT_EQ(read_rows<std::int32_t>(file, "machine/node"), zeros);
  EXPECT_EQ(read_rows<std::int32_t>(file, "machine/local_rank"), numbers);
  EXPECT_EQ(read_rows<std::int32_t>(file, "group_parts"), zeros);
}

TEST(TraceFile, ReplacesNothing) {
  Scratch scratch(&world().all());
  const fs::path file = scratch.path() / "trace.h5";
  if (scratch.owner()) write_all(file, "precious");
  world().all().barrier().wait();
  EXPECT_THAT(error_of([&] { io::TraceFile(world(), file, {}); }), AllOf(HasSubstr(file.string()), HasSubstr("exists")));
  EXPECT_EQ(read_all(file), "precious");
}

TEST(TraceFile, WithoutCloseKeepsWhatWasFlushed) {
  Scratch scratch(&world().all());
  const fs::path file = scratch.path() / "trace.h5";
  trace::start(trace::Level::steps, 1000);
  {
    io::TraceFile out(world(), file, some_header());
    record(100, 0);
    out.flush();
    record(100, 1);
  }
  trace::stop();
  world().all().barrier().wait();
  const io::TraceContents contents = io::describe_trace(file);
  EXPECT_FALSE(contents.complete);
  EXPECT_EQ(contents.events, (100U + clock_readings()) * static_cast<unsigned>(world().all().size()));
}

/// A rank whose disk fails leaves a chunk without its bytes, which HDF5 could not read.
TEST(TraceFile, AFailedWriteLeavesWhatWasWrittenBefore) {
  Scratch scratch(&world().all());
  const fs::path file = scratch.path() / "trace.h5";
  const int size = world().all().size();
  trace::start(trace::Level::steps, 1000);
  {
    io::TraceFile out(world(), file, some_header());
    record(100, 0);
    out.flush();
    record(100, 1);
    testing::internal::CaptureStderr();
    if (size > 1 && world().all().rank() == size - 1) io::fail_next_write();
    out.flush();
    record(100, 2);
    out.close();
    const std::string said = testing::internal::GetCapturedStderr();
    if (size > 1 && scratch.owner()) {
      EXPECT_THAT(said, AllOf(HasSubstr(text("rank ", size - 1)), HasSubstr("Input/output error"),
                              HasSubstr("no events are written after flush 1")));
    } else {
      EXPECT_EQ(said, "");
    }
  }
  trace::stop();
  world().all().barrier().wait();
  const std::size_t flushes = size > 1 ? 1 : 3;
  EXPECT_EQ(io::describe_trace(file).flushes, flushes);
  EXPECT_EQ(read_rows<trace::Event>(file, "/events").size(), flushes * io::trace_chunk_rows * static_cast<unsigned>(size));
}

}  // namespace of_trace_file_test
}  // namespace shoal::test
