// SPDX-License-Identifier: Apache-2.0
#include "shoal/io/trace_file.hpp"

#include <algorithm>
#include <cstdio>
#include <unordered_map>
#include <utility>

#include "agreement.hpp"
#include "files.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/trace.hpp"
#include "shoal/device/timing.hpp"
#include "trace_layout.hpp"
#include "trace_types.hpp"

namespace shoal::io {

namespace {

constexpr int clock_readings = 4;  // before each flush; the analysis takes their median

/// Records the time at which this rank leaves a barrier, which is the same moment on all ranks but for the way of a message.
/// From these counters the analysis knows how far the nodes' clocks have drifted apart since the start.
void read_clocks(comm::Communicator& group, std::int32_t flush) {
  for (int i = 0; i < clock_readings && group.size() > 1; ++i) {
    group.barrier().wait();
    trace::counter("clock/barrier", static_cast<std::uint64_t>(flush));
  }
}

/// The numbers that a rank contributes to a flush.
struct Contribution {
  std::uint64_t events = 0, dropped = 0, name_bytes = 0;
  std::uint64_t untimed_spans = 0;  // since the start
};

}  // namespace

struct TraceFile::State {
  comm::Communicator& group;
  std::filesystem::path path;
  std::unique_ptr<TraceLayout> layout;  // on rank 0
  File rows;
  bool writing = true, closed = false;
  std::int32_t flushes = 0;
  std::uint64_t total = 0;                                // number of rows of /events
  std::uint64_t dropped = 0;                              // events that this rank dropped until the last flush
  std::uint64_t checksum = 0;                             // checksum of the rows that this rank wrote
  std::vector<std::string> new_names;                     // known to all ranks, not yet in the file
  std::unordered_map<std::string, std::int32_t> numbers;  // index in the file by name, the same on all ranks
  std::vector<std::int32_t> translation;                  // index in the file by this rank's own index of a name

  void write(std::vector<trace::Event>& events);
  std::vector<Contribution> gather_contributions(const std::vector<trace::Event>& events, const std::string& names);
  void merge_names(const std::vector<Contribution>& contributions, const std::string& mine);
  std::string unsent_names() const;
  void write_rows(const std::vector<trace::Event>& events, std::uint64_t first, const std::vector<std::uint64_t>& chunks);
  void stop(const std::string& reason);
};

TraceFile::TraceFile(comm::World& world, const std::filesystem::path& file, const TraceHeader& header)
    : state_(new State{world.all(), file, nullptr, {}, true, false, 0, 0, 0, 0, {}, {}, {}}) {
  State& s = *state_;
  together_by_0(s.group, [&] {
    require_input(!std::filesystem::exists(std::filesystem::symlink_status(file)), file.string(),
                  ": exists; a trace does not replace other files");
    const std::filesystem::path temporary = file.string() + ".partial";
    remove_leftover(temporary);
    try {
      s.layout = std::make_unique<TraceLayout>(temporary, world, header);
      s.layout->commit_as(file);  // under this name there is always a file that can be read
    } catch (const Error&) {
      std::error_code ignored;
      std::filesystem::remove(temporary, ignored);
      throw;
    }
  });
  together(s.group, [&] { s.rows = File(file, File::Mode::write); });
}

TraceFile::~TraceFile() {
  if (state_->closed || state_->layout == nullptr) return;
  try {
    state_->layout->abandon();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "shoal: trace: %s\n", error.what());
  }
}

void TraceFile::flush() {
  State& s = *state_;
  if (s.writing && !s.closed) read_clocks(s.group, s.flushes);
  device::read_spans();
  std::vector<trace::Event> events = trace::drain();
  device::map_to_host(events);
  if (!s.writing || s.closed) return;
  const trace::Region region(trace::Level::steps, trace::Kind::io, "trace/flush", events.size() * sizeof(trace::Event));
  try {
    s.write(events);
  } catch (const Error& error) {  // the same on all ranks
    s.stop(error.what());
  }
}

void TraceFile::close() {
  State& s = *state_;
  if (s.closed) return;
  flush();
  s.closed = true;
  try {
    together(s.group, [&] { s.rows.close(); });
    s.group.all_reduce(Span<std::uint64_t>(&s.checksum, 1), comm::Reduce::sum).wait();
    together_by_0(s.group, [&] { s.writing ? s.layout->close(s.checksum) : s.layout->abandon(); });
  } catch (const Error& error) {  // the run does not fail if a full disk ends its trace early
    s.stop(error.what());
  }
}

void TraceFile::State::stop(const std::string& reason) {
  if (!std::exchange(writing, false) || group.rank() != 0) return;
  std::fprintf(stderr, "shoal: trace: %s; no events are written after flush %d; the run continues\n", reason.c_str(),
               flushes);
}

void TraceFile::State::write(std::vector<trace::Event>& events) {
  const std::string names = unsent_names();
  const std::vector<Contribution> contributions = gather_contributions(events, names);
  merge_names(contributions, names);

  std::vector<FlushRow> flush_rows;
  std::uint64_t end = total, untimed_spans = 0;
  for (const Contribution& contribution : contributions) {
    flush_rows.push_back(
        {flushes, static_cast<std::int32_t>(flush_rows.size()), end, contribution.events, contribution.dropped});
    end += contribution.events;
    untimed_spans += contribution.untimed_spans;
  }
  std::vector<std::uint64_t> chunks;  // offsets in the file of the chunks with the new rows
  if (end > total) chunks.resize((end + trace_chunk_rows - 1) / trace_chunk_rows - total / trace_chunk_rows);
  together_by_0(group, [&] {
    if (!chunks.empty()) chunks = layout->extend(total, end);
  });
  group.broadcast(comm::bytes_of(Span<std::uint64_t>(chunks)), 0).wait();

  for (trace::Event& event : events) {
    event.name = translation.at(static_cast<std::size_t>(event.name));
    event.reserved = group.rank();
  }
  together(group, [&] { write_rows(events, flush_rows[static_cast<std::size_t>(group.rank())].first, chunks); });
  together_by_0(group, [&] { layout->append(new_names, flush_rows, untimed_spans); });
  new_names.clear();
  total = end;
  ++flushes;
}

std::string TraceFile::State::unsent_names() const {
  std::string block;
  const std::vector<std::string>& all = trace::names();
  for (std::size_t i = translation.size(); i < all.size(); ++i) block.append(all[i]).push_back('\0');
  return block;
}

std::vector<Contribution> TraceFile::State::gather_contributions(const std::vector<trace::Event>& events,
                                                                 const std::string& names) {
  const std::uint64_t lost = trace::dropped();
  const Contribution mine{events.size(), lost - dropped, names.size(), device::untimed_spans()};
  dropped = lost;
  std::vector<Contribution> contributions(static_cast<std::size_t>(group.size()));
  group
      .all_gather(std::as_bytes(Span<const Contribution>(&mine, 1)),
                  std::as_writable_bytes(Span<Contribution>(contributions)))
      .wait();
  return contributions;
}

/// Gives new names their indices, in the order of the ranks that send them, so all ranks assign the same ones.
void TraceFile::State::merge_names(const std::vector<Contribution>& contributions, const std::string& mine) {
  std::uint64_t longest = 0;
  for (const Contribution& contribution : contributions) longest = std::max(longest, contribution.name_bytes);
  if (longest == 0) return;
  std::string padded = mine, all(longest * contributions.size(), '\0');
  padded.resize(longest);
  group.all_gather(std::as_bytes(Span<const char>(padded)), std::as_writable_bytes(Span<char>(all))).wait();
  for (std::size_t rank = 0; rank < contributions.size(); ++rank) {
    const std::string_view block = std::string_view(all).substr(rank * longest, contributions[rank].name_bytes);
    for (std::size_t at = 0; at < block.size();) {
      const std::string name(block.substr(at, block.find('\0', at) - at));
      at += name.size() + 1;
      const auto [found, fresh] = numbers.try_emplace(name, static_cast<std::int32_t>(numbers.size()));
      if (fresh) new_names.push_back(name);
      if (static_cast<int>(rank) == group.rank()) translation.push_back(found->second);
    }
  }
}

/// chunks: offsets in the file of the chunks with rows `total` and later.
void TraceFile::State::write_rows(const std::vector<trace::Event>& events, std::uint64_t first,
                                  const std::vector<std::uint64_t>& chunks) {
  const std::uint64_t first_chunk = total / trace_chunk_rows;
  for (std::size_t done = 0; done < events.size();) {
    const std::uint64_t row = first + done, in_chunk = row % trace_chunk_rows;
    const std::size_t count = std::min<std::uint64_t>(events.size() - done, trace_chunk_rows - in_chunk);
    const std::uint64_t place = chunks.at(row / trace_chunk_rows - first_chunk) + in_chunk * sizeof(trace::Event);
    const auto part = Span<const trace::Event>(events).subspan(done, count);
    rows.write(place, std::as_bytes(part));
    checksum += sum_of_rows(part, row);
    done += count;
  }
}

}  // namespace shoal::io
