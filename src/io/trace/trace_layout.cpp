// SPDX-License-Identifier: Apache-2.0
#include "io/trace/trace_layout.hpp"

#include <hdf5.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <numeric>

#include "io/files/hash.hpp"
#include "io/hdf5/hdf5_driver.hpp"
#include "io/hdf5/packed_chunk.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/names.hpp"
#include "shoal/device/queue.hpp"
#include "shoal/io/identity.hpp"

namespace shoal::io {

namespace {

using hdf5::checked;
using hdf5::Handle;

/// Upper bounds: bytes of the file before the first flush, of a flush without what grows with the ranks (names, blocks that
/// are not full), and of what the index of chunks has for each.
constexpr std::uint64_t head_bytes = 1U << 20U, slack_bytes = 1U << 18U, bytes_of_chunk_index = 128;

constexpr std::array kind_names = {"step", "phase",   "collective",    "wait",        "kernel",
                                   "io",   "counter", "device_kernel", "device_copy", "device_collective"};
static_assert(kind_names.size() == static_cast<std::size_t>(trace::Kind::device_collective) + 1);

/// By Event.queue.
std::vector<std::string> names_of_queues() {
  std::vector<std::string> all = {"host"};
  if (device::immediate()) return all;
  for (const std::string& name : names<device::Queue>()) all.push_back(name);
  return all;
}

struct NumberType {
  hid_t stored, in_memory;
};
NumberType number_type(std::uint64_t /*example*/) { return {H5T_STD_U64LE, H5T_NATIVE_UINT64}; }
NumberType number_type(int /*example*/) { return {H5T_STD_I32LE, H5T_NATIVE_INT}; }

/// numbers: in row-major order.
template <typename T>
void write_numbers(const Handle& place, const char* name, const std::vector<T>& numbers, const std::vector<hsize_t>& shape) {
  const NumberType type = number_type(T());
  const Handle space(H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr), H5Sclose, name);
  const Handle dataset(H5Dcreate2(place.id(), name, type.stored, space.id(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
                       H5Dclose, name);
  if (!numbers.empty()) {
    checked(H5Dwrite(dataset.id(), type.in_memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, numbers.data()), name);
  }
}

void write_topology(const Handle& machine, const comm::Topology& topology) {
  const hsize_t ranks = topology.hosts.size();
  std::vector<int> local;
  local.reserve(ranks);
  for (int rank = 0; rank < topology.ranks(); ++rank) local.push_back(topology.local_of(rank));
  hdf5::write_texts(machine, "hosts", topology.hosts);
  write_numbers(machine, "node", topology.node_of, {ranks});
  write_numbers(machine, "local_rank", local, {ranks});
}

void write_groups(const Handle& file, const std::vector<comm::GroupKind>& groups, std::size_t ranks) {
  std::vector<std::string> names;
  std::vector<int> parts;
  for (const comm::GroupKind& group : groups) {
    require(group.part_of.size() == ranks, "group ", group.name, " of ", group.part_of.size(), " ranks in a trace of ",
            ranks);
    names.push_back(group.name);
    parts.insert(parts.end(), group.part_of.begin(), group.part_of.end());
  }
  hdf5::write_texts(file, "groups", names);
  write_numbers(file, "group_parts", parts, {groups.size(), ranks});
}

/// The time 0 of this rank's events by the clock of the day: nanoseconds since 1970, UTC. It places the parts of a resumed
/// run behind one another.
std::int64_t unix_ns_of_zero() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count() - trace::now_ns();
}

/// Creates an extendable 1-D dataset. packed: its chunks are compressed (src/io/hdf5/packed_chunk.hpp), and get their places
/// in the file when they are written.
Handle growing(const Handle& file, const char* name, const Handle& type, std::uint64_t chunk, bool packed) {
  const hsize_t none = 0, unlimited = H5S_UNLIMITED, rows = chunk;
  const Handle space(H5Screate_simple(1, &none, &unlimited), H5Sclose, name);
  const Handle create(H5Pcreate(H5P_DATASET_CREATE), H5Pclose, name);
  checked(H5Pset_chunk(create.id(), 1, &rows), name);
  if (packed) hdf5::pack_chunks(create, name);
  return {H5Dcreate2(file.id(), name, type.id(), space.id(), H5P_DEFAULT, create.id(), H5P_DEFAULT), H5Dclose, name};
}

void append_rows(const Handle& dataset, const Handle& type, const void* data, hsize_t count, const char* name) {
  if (count == 0) return;
  const hsize_t first = hdf5::shape_of(dataset, name)[0], rows = first + count;
  checked(H5Dset_extent(dataset.id(), &rows), name);
  const Handle memory(H5Screate_simple(1, &count, nullptr), H5Sclose, name);
  const Handle target(H5Dget_space(dataset.id()), H5Sclose, name);
  checked(H5Sselect_hyperslab(target.id(), H5S_SELECT_SET, &first, nullptr, &count, nullptr), name);
  checked(H5Dwrite(dataset.id(), type.id(), memory.id(), target.id(), H5P_DEFAULT, data), name);
}

}  // namespace

TraceLayout::TraceLayout(const std::filesystem::path& path, comm::World& world, const TraceHeader& header)
    : ranks_(static_cast<std::uint64_t>(world.size())) {
  file_ = hdf5::create_file(path, true);
  space_ = File(path, File::Mode::write);
  space_.reserve(0, head_bytes);
  hdf5::write_attribute(file_, "format_version", trace_format);
  hdf5::write_attribute(file_, "program", std::string("shoal"));
  hdf5::write_attribute(file_, "version", header.version);
  hdf5::write_attribute(file_, "started", utc_now());
  hdf5::write_attribute(file_, "zero_unix_ns", unix_ns_of_zero());
  hdf5::write_attribute(file_, "world_size", world.all().size());
  hdf5::write_attribute(file_, "nodes", world.nodes());
  hdf5::write_attribute(file_, "level", std::string(shoal::name_of(trace::level())));
  hdf5::write_attribute(file_, "complete", 0);
  hdf5::write_attribute(file_, "parameters", header.parameters);
  hdf5::write_attribute(file_, "data", header.data);
  const Handle options = hdf5::create_group(file_, "options"), machine = hdf5::create_group(file_, "machine");
  for (const auto& [name, value] : header.options) hdf5::write_attribute(options, name, value);
  for (const auto& [name, value] : header.machine) hdf5::write_attribute(machine, name, value);
  hdf5::write_texts(file_, "changed", header.changed);
  write_topology(machine, world.topology());
  hdf5::write_texts(file_, "units", header.units);
  write_numbers(file_, "unit_elements", header.unit_elements, {header.unit_elements.size()});
  write_groups(file_, header.groups, static_cast<std::size_t>(world.size()));
  hdf5::write_texts(file_, "kinds", {kind_names.begin(), kind_names.end()});
  hdf5::write_texts(file_, "queues", names_of_queues());
  hdf5::write_attribute(file_, "sealed", 0);
  names_ = growing(file_, "names", hdf5::text_type(), 64, false);
  flushes_ = growing(file_, "flushes", flush_type(), 256, false);
  events_ = growing(file_, "events", event_type(), trace_chunk_rows, true);
  hdf5::write_fixed_attribute(events_, "checksum", hexadecimal(0));
  append({}, {}, 0);
}

std::vector<std::uint64_t> TraceLayout::extend(std::uint64_t before, const std::vector<std::uint32_t>& sizes) {
  hsize_t end = 0;
  checked(H5Fget_filesize(file_.id(), &end), "trace: file size");
  const std::uint64_t bytes = std::accumulate(sizes.begin(), sizes.end(), std::uint64_t{0});
  space_.reserve(end, end + bytes + slack_bytes + sizes.size() * bytes_of_chunk_index + ranks_ * 2 * sizeof(FlushRow));

  const hsize_t rows = before + sizes.size() * trace_chunk_rows;
  checked(H5Dset_extent(events_.id(), &rows), "/events");
  std::vector<std::uint64_t> offsets;
  for (const std::uint32_t size : sizes) {
    const std::uint64_t row = before + offsets.size() * trace_chunk_rows;
    offsets.push_back(hdf5::place_chunk(file_, events_, row, size, "/events"));
    const bool follows = !raw_.empty() && raw_.back().offset + raw_.back().bytes == offsets.back();
    if (!follows) raw_.push_back({offsets.back(), 0});
    raw_.back().bytes += size;
  }
  return offsets;
}

void TraceLayout::shrink(std::uint64_t rows) {
  const hsize_t extent = rows;
  checked(H5Dset_extent(events_.id(), &extent), "/events");
}

void TraceLayout::commit_as(const std::filesystem::path& file) {
  commit_file(space_.path(), file);
  space_.renamed(file);
}

void TraceLayout::append(const std::vector<std::string>& new_names, const std::vector<FlushRow>& rows,
                         std::uint64_t untimed_spans) {
  std::vector<const char*> texts;
  texts.reserve(new_names.size());
  for (const std::string& name : new_names) texts.push_back(name.c_str());
  append_rows(names_, hdf5::text_type(), texts.data(), texts.size(), "/names");
  append_rows(flushes_, flush_type(), rows.data(), rows.size(), "/flushes");
  hdf5::write_attribute(file_, "untimed_spans", static_cast<std::int64_t>(untimed_spans));
  hdf5::flush(file_, "trace: cannot be written");
}

void TraceLayout::abandon() {
  for (Handle* handle : {&events_, &names_, &flushes_}) handle->close("trace: cannot be closed");
  hdf5::close_file(file_, "trace: cannot be closed");
  space_.truncate(space_.size());
  space_.close();
}

void TraceLayout::close(std::uint64_t checksum) {
  hdf5::write_fixed_attribute(events_, "checksum", hexadecimal(checksum));
  hdf5::write_attribute(file_, "sealed", 1);
  hdf5::write_attribute(file_, "complete", 1);
  const std::filesystem::path path = space_.path();
  abandon();
  seal(path, raw_);
}

}  // namespace shoal::io
