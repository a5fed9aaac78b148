// SPDX-License-Identifier: Apache-2.0
// Reads and checks a trace on one rank. The file may come from anywhere.
#include <hdf5.h>

#include <algorithm>

#include "io/files/hash.hpp"
#include "io/files/named_errors.hpp"
#include "io/hdf5/hdf5_checks.hpp"
#include "io/hdf5/packed_chunk.hpp"
#include "io/hdf5/seal.hpp"
#include "io/trace/trace_types.hpp"
#include "shoal/base/error.hpp"
#include "shoal/io/trace_file.hpp"

namespace shoal::io {

namespace {

using hdf5::checked;
using hdf5::Handle;

/// bad_input() unless the dataset is a list of records of this type, all of them in the file. Returns their number.
std::size_t require_records(const Handle& dataset, const Handle& type, const std::string& name,
                            hdf5::Chunks chunks = hdf5::Chunks::all) {
  const Handle found(H5Dget_type(dataset.id()), H5Tclose, name);
  require_input(H5Tequal(found.id(), type.id()) > 0, name, ": its records are not those of a trace");
  const std::vector<std::size_t> shape = hdf5::shape_of(dataset, name);
  require_input(shape.size() == 1, name, ": ", shape.size(), " dimensions instead of 1");
  hdf5::require_stored(dataset, name, chunks);
  return shape[0];
}

std::vector<FlushRow> read_flushes(const Handle& file) {
  const Handle dataset = hdf5::open_dataset(file, "flushes"), type = flush_type();
  const std::size_t count = require_records(dataset, type, "/flushes");
  require_input(count <= hdf5::file_bytes(file) / sizeof(FlushRow), "/flushes: ", count, " rows are longer than the file");
  std::vector<FlushRow> rows(count);
  if (!rows.empty()) checked(H5Dread(dataset.id(), type.id(), H5S_ALL, H5S_ALL, H5P_DEFAULT, rows.data()), "/flushes");
  return rows;
}

/// Of formats 1 and 2.
void read_plain_rows(const Handle& dataset, const Handle& type, hsize_t first, std::vector<trace::Event>& rows) {
  const hsize_t size = rows.size();
  const Handle memory(H5Screate_simple(1, &size, nullptr), H5Sclose, "/events");
  const Handle part(H5Dget_space(dataset.id()), H5Sclose, "/events");
  checked(H5Sselect_hyperslab(part.id(), H5S_SELECT_SET, &first, nullptr, &size, nullptr), "/events");
  checked(H5Dread(dataset.id(), type.id(), memory.id(), part.id(), H5P_DEFAULT, rows.data()), "/events");
}

std::uint64_t checksum_of_events(const Handle& dataset, const Handle& type, std::size_t count, bool packed) {
  std::uint64_t sum = 0;
  for (std::uint64_t first = 0; first < count; first += trace_chunk_rows) {
    std::vector<trace::Event> rows(packed ? trace_chunk_rows : std::min(trace_chunk_rows, count - first));
    if (packed) {
      hdf5::read_packed(dataset, first, sizeof(trace::Event), std::as_writable_bytes(Span<trace::Event>(rows)), "/events");
      rows.resize(std::min(trace_chunk_rows, count - first));
    } else {
      read_plain_rows(dataset, type, first, rows);
    }
    sum += sum_of_rows(rows, first);
  }
  return sum;
}

void verify_events(const Handle& file, std::int64_t format) {
  const Handle dataset = hdf5::open_dataset(file, "events"), type = event_type(format);
  const std::uint64_t expected = parse_hexadecimal(hdf5::text_attribute(dataset, "checksum"), "/events");
  const bool packed = format > 2;
  const std::size_t count = require_records(dataset, type, "/events", packed ? hdf5::Chunks::later : hdf5::Chunks::all);
  if (packed) hdf5::require_packed(dataset, trace_chunk_rows, "/events");
  const std::uint64_t found = checksum_of_events(dataset, type, count, packed);
  require_input(found == expected, "/events: checksum ", hexadecimal(found), ", expected ", hexadecimal(expected),
                "; the file is damaged");
}

TraceContents read_contents(const Handle& file) {
  require_input(hdf5::has_link(file, "events") && hdf5::has_link(file, "flushes"),
                "not a trace: /events or /flushes is missing");
  TraceContents contents;
  contents.format_version = hdf5::number_attribute(file, "format_version");
  require_input(contents.format_version >= oldest_trace_format && contents.format_version <= trace_format, "format_version ",
                contents.format_version, "; this program reads ", oldest_trace_format, " to ", trace_format);
  contents.world_size = hdf5::number_attribute(file, "world_size");
  contents.nodes = hdf5::number_attribute(file, "nodes");
  contents.version = hdf5::text_attribute(file, "version");
  contents.started = hdf5::text_attribute(file, "started");
  contents.level = hdf5::text_attribute(file, "level");
  contents.complete = hdf5::number_attribute(file, "complete") != 0;
  contents.names = hdf5::read_texts(file, "names");
  if (contents.format_version > 1) {
    contents.queues = hdf5::read_texts(file, "queues");
    require_input(!contents.queues.empty(), "/queues: no row for the host");
    contents.queues.erase(contents.queues.begin());
    contents.untimed_spans = hdf5::number_attribute(file, "untimed_spans");
  }
  for (const FlushRow& row : read_flushes(file)) {
    contents.events += row.count;
    contents.dropped += row.dropped;
    contents.flushes = static_cast<std::uint64_t>(row.flush) + 1;
  }
  return contents;
}

}  // namespace

TraceContents describe_trace(const std::filesystem::path& path, bool verify) {
  require_input(std::filesystem::exists(path), path.string(), ": no such trace");
  const bool sealed = find_seal(path).has_value();
  return with_file_name(path, [&] {
    const Handle file = hdf5::open_file(path);
    TraceContents contents = read_contents(file);
    contents.sealed = sealed;
    contents.file_bytes = hdf5::file_bytes(file);
    if (!verify) return contents;
    const bool was_sealed = hdf5::has_attribute(file, "sealed") && hdf5::number_attribute(file, "sealed") != 0;
    require_input(sealed || !was_sealed,
                  "there is no seal at its end: the file is incomplete, or was changed by another program");
    if (sealed) verify_events(file, contents.format_version);
    return contents;
  });
}

}  // namespace shoal::io
