// SPDX-License-Identifier: Apache-2.0
// Reads any HDF5 file as a trace, with and without a seal. It must be refused in one line, or described.
#include "any_file.hpp"
#include "io/hdf5/seal.hpp"
#include "io/trace/trace_types.hpp"
#include "shoal/io/trace_file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace shoal;
  fuzz::Bytes bytes(data, size);
  const fuzz::MemoryFile file;
  fuzz::make(bytes, file, [&](fuzz::AnyFile& h5) {
    const hid_t text = fuzz::AnyFile::text();
    for (const char* const name : {"format_version", "world_size", "nodes", "complete", "sealed", "untimed_spans"}) {
      h5.attribute(h5.id(), name, H5T_STD_I8LE);
    }
    for (const char* const name : {"version", "started", "level"}) h5.attribute(h5.id(), name, text);
    const io::hdf5::Handle event = io::event_type(bytes.one_in(2) ? 1 : io::trace_format), flush = io::flush_type();
    h5.dataset("events", event.id(), 1, text);
    h5.dataset("flushes", flush.id(), 1);
    if (!bytes.one_in(3)) h5.dataset("queues", text, 1);
    const fuzz::Extent references = h5.dataset("names", text, 1);
    H5Tclose(text);
    return references;
  });
  const bool verify = bytes.one_in(2);
  if (bytes.one_in(2)) io::seal(file.path(), {});
  if (bytes.one_in(2)) fuzz::damage(bytes, file, {file.size() < 40 ? 0 : file.size() - 40, 40});
  fuzz::must_be_read_or_refused(file, [&] { io::describe_trace(file.path(), verify); });
  return 0;
}
