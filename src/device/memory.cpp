// SPDX-License-Identifier: Apache-2.0
// Owners of memory, the same on all devices.
#include "shoal/device/memory.hpp"

#include <cstdlib>
#include <exception>
#include <vector>

#include "shoal/base/error.hpp"
#include "shoal/base/output.hpp"
#include "shoal/device/cells.hpp"
#include "shoal/device/unit.hpp"

namespace shoal::device {

namespace {

/// From the oldest to the newest.
std::vector<const PieceMemory*>& pieces() {
  static std::vector<const PieceMemory*> memories;
  return memories;
}

Ledger counted(const std::function<void(Memory&)>& take) {
  Memory counting(images());
  take(counting);
  return counting.taken();
}

}  // namespace

Images images_for(Reach reach) {
  switch (reach) {
    case Reach::nothing: return Images::messages;
    case Reach::messages: return Images::collectives;
    case Reach::collectives: break;
  }
  return Images::none;
}

Images images() { return images_for(reach()); }

DeviceMemory::DeviceMemory(const std::function<void(Memory&)>& take) : DeviceMemory(counted(take)) { take(*this); }

DeviceMemory::~DeviceMemory() {
  if (std::uncaught_exceptions() > 0) return;
  try {
    wait_for_device();
  } catch (const std::exception& error) {  // of the work: a destructor must not throw
    output::complain(text("shoal: at the end of the device's memory: ", error.what(), "\n"));
    std::abort();
  }
}

bool reach_arenas(Calls calls) {
  return reach() == Reach::collectives || (reach() == Reach::messages && calls == Calls::messages);
}

PieceMemory::PieceMemory(Memory& memory, const char* label) {
  const bool on_disk = memory.taken().in(Where::nvme) > 0;
  memory_ = memory.take<std::byte>(Kind::staging, on_disk ? largest_piece_bytes : piece_bytes(), label);
  if (!memory.counting()) pieces().push_back(this);
}
PieceMemory::~PieceMemory() { std::erase(pieces(), this); }

Span<std::byte> PieceMemory::newest() { return pieces().empty() ? Span<std::byte>() : pieces().back()->memory_; }

}  // namespace shoal::device
