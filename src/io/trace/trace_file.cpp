// SPDX-License-Identifier: Apache-2.0
#include "shoal/io/trace_file.hpp"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "io/files/agreement.hpp"
#include "io/files/files.hpp"
#include "io/hdf5/packed_chunk.hpp"
#include "io/trace/trace_layout.hpp"
#include "io/trace/trace_types.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/output.hpp"
#include "shoal/base/trace.hpp"
#include "shoal/device/timing.hpp"

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

std::uint64_t chunks_of(std::uint64_t events) { return (events + trace_chunk_rows - 1) / trace_chunk_rows; }

/// A rank's part of a flush: whole chunks of rows, compressed, one behind another.
struct PackedRows {
  std::vector<std::byte> bytes;
  std::vector<std::uint32_t> sizes;  // of each chunk
};

/// events: a whole number of chunks.
PackedRows pack_rows(const std::vector<trace::Event>& events) {
  PackedRows packed;
  for (std::size_t first = 0; first < events.size(); first += trace_chunk_rows) {
    const auto chunk = std::as_bytes(Span<const trace::Event>(events).subspan(first, trace_chunk_rows));
    const std::vector<std::byte> bytes = pack(chunk, sizeof(trace::Event));
    packed.bytes.insert(packed.bytes.end(), bytes.begin(), bytes.end());
    packed.sizes.push_back(static_cast<std::uint32_t>(bytes.size()));
  }
  return packed;
}

/// Writes chunks to their offsets; those that lie one behind another in the file at once.
void write_chunks(File& file, const PackedRows& packed, Span<const std::uint64_t> offsets) {
  Span<const std::byte> rest = packed.bytes;
  for (std::size_t i = 0; i < offsets.size();) {
    const std::uint64_t begin = offsets[i];
    std::uint64_t end = begin;
    for (; i < offsets.size() && offsets[i] == end; ++i) end += packed.sizes[i];
    file.write(begin, rest.first(end - begin));
    rest = rest.subspan(end - begin);
  }
}

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
  std::vector<std::uint32_t> gather_sizes(const std::vector<Contribution>& contributions, const PackedRows& mine);
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
    output::complain(text("shoal: trace: ", error.what(), "\n"));
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
  try {
    layout->shrink(total);  // of this flush not all chunks were written, and a reader must not find any
  } catch (const Error&) {  // the disk fails in more than one way; `reason` says the first
  }
  output::complain(text("shoal: trace: ", reason, "; no events are written after flush ", flushes, "; the run continues\n"));
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
    end += chunks_of(contribution.events) * trace_chunk_rows;
    untimed_spans += contribution.untimed_spans;
  }
  const std::uint64_t first = flush_rows[static_cast<std::size_t>(group.rank())].first;
  PackedRows packed;
  together(group, [&] {
    for (trace::Event& event : events) {
      event.name = translation.at(static_cast<std::size_t>(event.name));
      event.reserved = group.rank();
    }
    events.resize(chunks_of(events.size()) * trace_chunk_rows, filling_row);
    checksum += sum_of_rows(events, first);
    packed = pack_rows(events);
  });
  if (end > total) {
    const std::vector<std::uint32_t> sizes = gather_sizes(contributions, packed);
    std::vector<std::uint64_t> offsets(sizes.size());  // in the file, of all ranks' chunks
    together_by_0(group, [&] { offsets = layout->extend(total, sizes); });
    group.broadcast(comm::bytes_of(Span<std::uint64_t>(offsets)), 0).wait();
    const std::uint64_t mine = (first - total) / trace_chunk_rows;
    together(group,
             [&] { write_chunks(rows, packed, Span<const std::uint64_t>(offsets).subspan(mine, packed.sizes.size())); });
  }
  together_by_0(group, [&] { layout->append(new_names, flush_rows, untimed_spans); });
  new_names.clear();
  total = end;
  ++flushes;
}

/// The sizes of all ranks' chunks, rank by rank.
std::vector<std::uint32_t> TraceFile::State::gather_sizes(const std::vector<Contribution>& contributions,
                                                          const PackedRows& mine) {
  std::vector<std::size_t> parts;
  std::size_t before = 0, chunks = 0;
  for (const Contribution& contribution : contributions) {
    if (static_cast<int>(parts.size()) == group.rank()) before = chunks;
    parts.push_back(chunks_of(contribution.events) * sizeof(std::uint32_t));
    chunks += chunks_of(contribution.events);
  }
  std::vector<std::uint32_t> sizes(chunks);
  std::copy(mine.sizes.begin(), mine.sizes.end(), sizes.begin() + static_cast<std::ptrdiff_t>(before));
  group.all_gather_parts(comm::bytes_of(Span<std::uint32_t>(sizes)), parts).wait();
  return sizes;
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

}  // namespace shoal::io
