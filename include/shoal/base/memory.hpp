// SPDX-License-Identifier: Apache-2.0
// Large buffers are taken from arenas whose sizes are fixed before the first step. To find the sizes, the code that takes
// the memory is first run on arenas that only count. So a run takes exactly the planned bytes.
//
// [Note: tiers] A tier is where bytes wait while no kernel uses them: memory of the device, memory of the host, or files on
// a local disk (Rajbhandari et al. 2021, "ZeRO-Infinity", section 5). A buffer in any tier has addresses, so that one Span
// names it everywhere. Those of a disk can be neither read nor written: kernels get copies (device/tier.hpp), and files and
// initial values go through device::in_pieces().
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "shoal/base/names.hpp"
#include "shoal/base/types.hpp"

namespace shoal {

/// The use of a buffer. The first four kinds are the model states, which a rank keeps between steps. Activations are needed
/// until a micro-batch's backward pass. `staging` is memory of the host from and to which the device copies: tokens, losses,
/// parts of files, copies of states for checkpoints, images. All else counts as `buffers`: gathered units, gradients of one
/// micro-batch, partial sums, messages and workspaces.
enum class Kind : std::uint8_t { parameters, master, gradients, moments, activations, buffers, staging };
inline constexpr std::array kinds = {Kind::parameters,  Kind::master,  Kind::gradients, Kind::moments,
                                     Kind::activations, Kind::buffers, Kind::staging};
const char* name_of(Kind kind);

/// What uses a buffer besides kernels and copies: nothing, messages of one rank to another, or also collectives of the
/// library that sends messages.
enum class Use : std::uint8_t { kernels, messages, collectives };
/// Which buffers have an image: as many bytes of the host's memory, for messages that do not reach arenas. None, those that
/// collectives use, or all that messages use.
enum class Images : std::uint8_t { none, collectives, messages };

/// The tiers, as options name them: offload.optimizer, offload.params.
enum class Where : std::uint8_t {
  device,  ///< where kernels use it
  cpu,     ///< memory of the host; if the host is the device, kernels use it there
  nvme,    ///< a local disk
};
inline constexpr std::array where_names = {Named{Where::device, "none"}, Named{Where::cpu, "cpu"},
                                           Named{Where::nvme, "nvme"}};
constexpr const auto& table_of(Where) { return where_names; }

/// Number of bytes of each kind, in each tier. Kind::staging is memory of the host in any case.
class Ledger {
 public:
  std::size_t& at(Where where, Kind kind) { return bytes_[static_cast<std::size_t>(where)][static_cast<std::size_t>(kind)]; }
  std::size_t at(Where where, Kind kind) const {
    return bytes_[static_cast<std::size_t>(where)][static_cast<std::size_t>(kind)];
  }
  std::size_t& operator[](Kind kind) { return at(Where::device, kind); }
  std::size_t operator[](Kind kind) const { return at(Where::device, kind); }
  /// Of all kinds in this tier.
  std::size_t in(Where where) const;
  /// Of all memory: everything but what is on disks.
  std::size_t total() const { return in(Where::device) + in(Where::cpu); }
  /// Of the bytes of Kind::staging: the images of buffers of this kind, and of all kinds.
  std::size_t& images(Kind kind) { return images_[static_cast<std::size_t>(kind)]; }
  std::size_t images(Kind kind) const { return images_[static_cast<std::size_t>(kind)]; }
  std::size_t images() const;
  bool operator==(const Ledger&) const = default;

 private:
  std::array<std::array<std::size_t, kinds.size()>, where_names.size()> bytes_{};
  std::array<std::size_t, kinds.size()> images_{};
};

/// Provides memory and takes it back. reserve() returns zeros, and throws if there is not enough; its message names `what`.
/// What release() throws ends the program, with its message.
struct Allocator {
  void* (*reserve)(std::size_t bytes, const char* what);
  void (*release)(void* at, std::size_t bytes);
};
/// Memory of this process. The system provides each page when it is first touched.
Allocator pages();
/// Addresses without memory: whoever touches them is stopped.
Allocator addresses();

/// One arena per tier and kind. Spans taken from it are valid as long as the Memory exists. Each rank has one.
class Memory {
 public:
  /// Only counts. take() returns spans of the right size with data() == nullptr, which must not be read or written.
  explicit Memory(Images images = Images::none);
  /// Reserves exactly the planned bytes, filled with zeros: `staging` provides those of Kind::staging and of Where::cpu,
  /// `arenas` all others in memory, and addresses() those on disks.
  /// images: as when they were counted.
  explicit Memory(const Ledger& planned, const Allocator& arenas = pages(), const Allocator& staging = pages(),
                  Images images = Images::none);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  bool counting() const { return counting_; }

  /// Takes `elements` elements of T, aligned to 64 bytes (on a disk to 4096), and their image if `use` asks for one. Fails
  /// if the plan has fewer bytes; the error names kind and label. If two buffers are adjacent in their arena and both have
  /// images, so are these. Memory of the host needs no image.
  template <typename T>
  Span<T> take(Kind kind, std::size_t elements, const char* label, Use use = Use::kernels, Where where = Where::device) {
    return {static_cast<T*>(take_bytes(kind, elements * sizeof(T), label, use, where)), elements};
  }

  /// Bytes taken so far, by kind. take() counts them; they are not copied from the plan, so that the two can be compared.
  const Ledger& taken() const { return taken_; }

  /// The buffers in the order in which they were taken, without images, for reports. `bytes` includes the padding.
  struct Entry {
    Kind kind;
    std::string label;
    std::size_t bytes;
    Use use = Use::kernels;
    Where where = Where::device;
  };
  const std::vector<Entry>& entries() const { return entries_; }

  /// The addresses that were reserved in a tier for a kind, taken or not.
  Span<std::byte> arena(Where where, Kind kind) const { return {base(where, kind), planned_.at(where, kind)}; }

  /// An address within a buffer: byte `byte` of `bytes`.
  struct Place {
    Kind kind;
    const char* label;  ///< valid until its Memory hands out more or ends
    std::size_t byte, bytes;
    Use use = Use::kernels;
    std::byte* image = nullptr;  ///< of this byte, if the buffer has one
  };
  /// Where an address lies, of all Memory objects. Neither allocates nor locks, so that the handler of a fault may ask; not
  /// to be called while another thread makes a Memory, takes from it or ends it.
  static std::optional<Place> place_of(const void* address);

 private:
  void* take_bytes(Kind kind, std::size_t bytes, const char* label, Use use, Where where);
  void require_room(std::size_t taken, std::size_t more, std::size_t planned, const char* label, const char* what) const;
  bool has_image(Where where, Kind kind, Use use) const;
  std::byte* first_image(Kind kind) const;
  const Allocator& allocator(Where where, Kind kind) const;
  std::byte* base(Where where, Kind kind) const {
    return base_[static_cast<std::size_t>(where)][static_cast<std::size_t>(kind)];
  }

  bool counting_;
  Images images_;
  Allocator arenas_ = pages(), staging_ = pages(), disks_ = addresses();
  Ledger planned_, taken_;
  std::array<std::array<std::byte*, kinds.size()>, where_names.size()> base_{};
  std::vector<Entry> entries_;
};

}  // namespace shoal
