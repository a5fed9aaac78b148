// SPDX-License-Identifier: Apache-2.0
// Memory of the device that computes. The library that a program links decides which device this is (queue.hpp). On the host
// all memory is that of the process; elsewhere arenas are beyond its reach.
#pragma once

#include <cstddef>
#include <functional>

#include "shoal/base/memory.hpp"
#include "shoal/base/types.hpp"
#include "shoal/device/unit.hpp"

namespace shoal::device {

/// Memory for arenas. Only kernels, copy(), communicators and in_pieces() read or write it.
Allocator arenas();
/// Memory of the host that copy() reads and writes at the full rate of the link to the device.
Allocator staging();
/// True if the address lies in an arena, false for any memory of the host. Any thread may ask.
bool holds(const void* address);

/// True if kernels reach the buffers of this tier at their addresses.
bool kernels_reach(Where where);
/// Kind of the memory to which a tier's bytes come up: kernels and transfers both use it.
inline Kind windows_kind() { return kernels_reach(Where::cpu) ? Kind::staging : Kind::buffers; }

/// The images that calls which do not reach arenas need.
Images images_for(Reach reach);
/// Those of this run: for reach() (unit.hpp).
Images images();

/// Memory that is reserved in arenas() and staging(). Its end waits until everything that is enqueued on any queue is done.
/// While an exception unwinds the stack it does not wait, since what is enqueued may use memory that is already freed.
class DeviceMemory final : public Memory {
 public:
  /// planned: counted by a Memory with images().
  explicit DeviceMemory(const Ledger& planned) : Memory(planned, arenas(), staging(), images()) {}
  /// Reserves what `take` takes, and lets it take it: `take` is called twice, first with a Memory that only counts.
  explicit DeviceMemory(const std::function<void(Memory&)>& take);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
};

/// What a piece of in_pieces() or a message does with memory: whether it is fetched before, or stored afterwards.
enum class Access : std::uint8_t { read, write };

/// Calls of a message-passing library: messages of one rank to another, and collectives.
enum class Calls : std::uint8_t { messages, collectives };

/// The address at which such calls of a message-passing library read or write this memory, which lies in an arena or on the
/// host. Such a library knows no queues, so if it is an arena, this waits for all that is on the current queue; waits() does
/// not count it. If these calls do not reach arenas (reach(), unit.hpp), the address is that of the memory's image
/// (Memory::take()): with Access::read it has the arena's values when this returns. Addresses of neighbours are neighbours.
/// Fails if the memory was not taken for such calls; where they reach arenas, only the simulated device asks.
std::byte* for_messages(Span<const std::byte> memory, Access access, Calls calls);
/// To be called when such a call that wrote to for_messages(memory, Access::write, calls) is complete. If that was an image,
/// this copies it to the arena, and waits for that.
void received(Span<std::byte> memory, Calls calls);
/// Whether these calls reach arenas.
bool reach_arenas(Calls calls);

/// Calls use(first, piece) for all of `values`, one piece after another: `piece` is host memory that stands for the elements
/// from `first` on. Pieces begin at multiples of `alignment` elements, at most 2^18. With Access::read, what `use` writes to
/// a piece is lost; with Access::write the piece's contents are undefined before it. `values` may also be memory of the
/// host, as they always are if the host is the device: then there is one piece, `values` itself. Otherwise a PieceMemory
/// must exist, or this fails; so if they are in a tier that kernels do not reach (device/tier.hpp). For files and initial
/// values, not for steps: the host waits for each piece.
void in_pieces(Span<float> values, Access access, std::size_t alignment,
               const std::function<void(std::size_t first, Span<float> piece)>& use);

/// The staging memory through which in_pieces() copies. If there are several, the newest one is used.
class PieceMemory {
 public:
  /// Takes memory for pieces of up to 2^18 elements; none if the host is the device and nothing was taken on disks before.
  /// `memory` must outlive this. label: for reports. A `memory` that only counts makes one that is never used.
  PieceMemory(Memory& memory, const char* label);
  ~PieceMemory();
  PieceMemory(const PieceMemory&) = delete;
  PieceMemory& operator=(const PieceMemory&) = delete;

  /// The memory that in_pieces() uses now; empty if there is none.
  static Span<std::byte> newest();

 private:
  Span<std::byte> memory_;
};
inline constexpr std::size_t largest_piece_bytes = (std::size_t{1} << 18U) * sizeof(float);
/// Bytes that a PieceMemory takes on this device, if nothing was taken on disks.
std::size_t piece_bytes();

}  // namespace shoal::device
