// SPDX-License-Identifier: Apache-2.0
#include "shoal/io/nvme_tier.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "io/tiers/aligned_memory.hpp"
#include "io/tiers/block_store.hpp"
#include "shoal/base/activity.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/trace.hpp"

namespace shoal::io {

namespace {

std::uint64_t planned_bytes(const Memory& memory) {
  std::uint64_t bytes = 0;
  for (const Kind kind : kinds) bytes += memory.arena(Where::nvme, kind).size();
  return bytes;
}

}  // namespace

struct NvmeTier::State {
  State(const Memory& memory, const NvmeOptions& options, DiskAccess access)
      : directory(options.dir),
        store(planned_bytes(memory), options, access, memory.arena(Where::device, Kind::staging)),
        block(aligned_memory(block_bytes)) {}

  std::string directory;
  BlockStore store;
  bool ready = false;  // the store knows the buffers
  device::TierTraffic traffic;
  // read() and write() go through memory of one block, which goes down when another one is needed.
  AlignedMemory block;
  std::optional<BlockRange> held;
  bool changed = false;
};

NvmeTier::NvmeTier(const Memory& memory, const NvmeOptions& options, DiskAccess access)
    : Tier(memory, Where::nvme), state_(std::make_unique<State>(memory, options, access)) {}
NvmeTier::~NvmeTier() = default;

DiskAccess NvmeTier::access() const { return state_->store.queue().access(); }
bool NvmeTier::direct() const { return state_->store.direct(); }
const std::vector<std::string>& NvmeTier::warnings() const { return state_->store.warnings(); }
device::TierTraffic NvmeTier::traffic() const { return state_->traffic; }

/// Whole sectors around these bytes.
BlockRange NvmeTier::range_of(Span<const std::byte> there) const {
  const std::vector<Buffer>& all = buffers();
  if (!state_->ready) {
    for (const Buffer& buffer : all) state_->store.add_buffer(buffer.bytes);
    state_->ready = true;
  }
  const Buffer& buffer = buffer_of(there.data());
  const auto begin = static_cast<std::size_t>(there.data() - buffer.begin);
  require(begin + there.size() <= buffer.bytes, "a transfer of two buffers");
  return {static_cast<std::size_t>(&buffer - all.data()),
          buffer.offset,
          {begin / sector * sector, round_up(begin + there.size(), sector)}};
}

NvmeTier::Ticket NvmeTier::up(Span<const std::byte> there, Span<std::byte> here) {
  put_back();
  const BlockRange range = range_of(there);
  state_->traffic.up += range.bytes.size();
  return state_->store.start_up(range, {here.data(), range.bytes.size()});
}

NvmeTier::Ticket NvmeTier::down(Span<const std::byte> here, Span<std::byte> there) {
  put_back();
  state_->held.reset();
  const BlockRange range = range_of(there);
  state_->traffic.down += range.bytes.size();
  return state_->store.start_down(range, {here.data(), range.bytes.size()});
}

void NvmeTier::wait(Ticket ticket) {
  if (ticket == 0) return;
  const std::int64_t begin = trace::now_ns();
  activity::begin_wait(
      {activity::name_from(text("a read or write in ", state_->directory)), 0, trace::step(), trace::unit()});
  try {
    const std::optional<WrongBlock> wrong = state_->store.finish(ticket);
    activity::end_wait();
    state_->traffic.wait_s += static_cast<double>(trace::now_ns() - begin) * 1e-9;
    if (wrong) {
      const Buffer& buffer = buffers()[wrong->buffer];
      fail("nvme.dir = ", state_->directory, ": ", buffer.label, ", bytes ", buffer.offset + wrong->bytes.begin, " to ",
           buffer.offset + wrong->bytes.end,
           " of the file: the checksum differs from that of what was written (a damaged disk, or another program wrote "
           "there)");
    }
  } catch (const SystemError& error) {
    fail("nvme.dir = ", state_->directory, ": ", error.what());
  }
}

/// Brings a block to the memory of one, if it is not there.
Span<std::byte> NvmeTier::hold(const BlockRange& range, bool read) {
  const Span<std::byte> memory(state_->block.get(), range.bytes.size());
  if (state_->held && state_->held->buffer == range.buffer && state_->held->bytes == range.bytes) return memory;
  put_back();
  state_->held.reset();
  if (read) {
    state_->traffic.up += memory.size();
    wait(state_->store.start_up(range, memory));
  }
  state_->held = range;
  return memory;
}

void NvmeTier::put_back() {
  if (!std::exchange(state_->changed, false)) return;
  const Span<std::byte> memory(state_->block.get(), state_->held->bytes.size());
  state_->traffic.down += memory.size();
  wait(state_->store.start_down(*state_->held, memory));
}

void NvmeTier::in_blocks(Span<const std::byte> there, bool writes,
                         const std::function<void(std::size_t first, Span<std::byte> part)>& use) {
  state_->store.finish_all();
  const BlockRange whole = range_of(there);
  const Buffer& buffer = buffers()[whole.buffer];
  const auto begin = static_cast<std::size_t>(there.data() - buffer.begin);
  for (std::size_t at = begin; at < begin + there.size();) {
    const std::size_t first = at / block_bytes * block_bytes;
    BlockRange block = whole;
    block.bytes = {first, std::min(first + block_bytes, buffer.bytes)};
    const Range part = intersection(block.bytes, {at, begin + there.size()});
    const Span<std::byte> memory = hold(block, !writes || part != block.bytes);
    use(part.begin - begin, memory.subspan(part.begin - first, part.size()));
    state_->changed = state_->changed || writes;
    at = part.end;
  }
}

void NvmeTier::read(Span<const std::byte> there, Span<std::byte> here) {
  in_blocks(there, false, [&](std::size_t first, Span<std::byte> part) {
    std::copy(part.begin(), part.end(), here.subspan(first).begin());
  });
}

void NvmeTier::write(Span<const std::byte> here, Span<std::byte> there) {
  in_blocks(there, true, [&](std::size_t first, Span<std::byte> part) {
    const Span<const std::byte> from = here.subspan(first, part.size());
    std::copy(from.begin(), from.end(), part.begin());
  });
}

}  // namespace shoal::io
