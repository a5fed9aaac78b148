// SPDX-License-Identifier: Apache-2.0
#include "io/trace/trace_types.hpp"

#include <hdf5.h>

#include <cstddef>
#include <vector>

#include "io/files/hash.hpp"

namespace shoal::io {

using hdf5::Handle;

namespace {

struct Member {
  const char* name;
  std::size_t offset;
  hid_t type;
};

Handle compound(std::size_t bytes, const std::vector<Member>& members) {
  Handle type(H5Tcreate(H5T_COMPOUND, bytes), H5Tclose, "trace: record type");
  for (const Member& m : members) hdf5::checked(H5Tinsert(type.id(), m.name, m.offset, m.type), "trace: record type");
  return type;
}

}  // namespace

Handle event_type(std::int64_t format) {
  using trace::Event;
  std::vector<Member> members = {{"begin_ns", offsetof(Event, begin_ns), H5T_STD_I64LE},
                                 {"duration_ns", offsetof(Event, duration_ns), H5T_STD_I64LE},
                                 {"bytes", offsetof(Event, bytes), H5T_STD_U64LE},
                                 {"name", offsetof(Event, name), H5T_STD_I32LE},
                                 {"step", offsetof(Event, step), H5T_STD_I32LE},
                                 {"unit", offsetof(Event, unit), H5T_STD_I16LE},
                                 {"kind", offsetof(Event, kind), H5T_STD_U16LE},
                                 {"group", offsetof(Event, group), H5T_STD_I16LE},
                                 {"micro", offsetof(Event, micro), H5T_STD_I16LE},
                                 {"depth", offsetof(Event, depth), format == 1 ? H5T_STD_I32LE : H5T_STD_I16LE}};
  if (format > 1) members.push_back({"queue", offsetof(Event, queue), H5T_STD_I16LE});
  members.push_back({"rank", offsetof(Event, reserved), H5T_STD_I32LE});
  return compound(sizeof(Event), members);
}

Handle flush_type() {
  return compound(sizeof(FlushRow), {{"flush", offsetof(FlushRow, flush), H5T_STD_I32LE},
                                     {"rank", offsetof(FlushRow, rank), H5T_STD_I32LE},
                                     {"first", offsetof(FlushRow, first), H5T_STD_U64LE},
                                     {"count", offsetof(FlushRow, count), H5T_STD_U64LE},
                                     {"dropped", offsetof(FlushRow, dropped), H5T_STD_U64LE}});
}

std::uint64_t sum_of_rows(Span<const trace::Event> rows, std::uint64_t first) {
  std::uint64_t sum = 0;
  for (const trace::Event& row : rows) sum += xxh3(std::as_bytes(Span<const trace::Event>(&row, 1)), first++);
  return sum;
}

}  // namespace shoal::io
