// SPDX-License-Identifier: Apache-2.0
// Large buffers are taken from arenas whose sizes are fixed before the first step. To find the sizes, the code that takes
// the memory is first run on arenas that only count. So a run takes exactly the planned bytes.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

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

/// Number of bytes of each kind.
class Ledger {
 public:
  std::size_t& operator[](Kind kind) { return bytes_[static_cast<std::size_t>(kind)]; }
  std::size_t operator[](Kind kind) const { return bytes_[static_cast<std::size_t>(kind)]; }
  std::size_t total() const;
  /// Of the bytes of Kind::staging: the images of buffers of this kind, and of all kinds.
  std::size_t& images(Kind kind) { return images_[static_cast<std::size_t>(kind)]; }
  std::size_t images(Kind kind) const { return images_[static_cast<std::size_t>(kind)]; }
  std::size_t images() const;
  bool operator==(const Ledger&) const = default;

 private:
  std::array<std::size_t, kinds.size()> bytes_{}, images_{};
};

/// Provides memory and takes it back. reserve() returns zeros, and throws if there is not enough; its message names `what`.
/// What release() throws ends the program, with its message.
struct Allocator {
  void* (*reserve)(std::size_t bytes, const char* what);
  void (*release)(void* at, std::size_t bytes);
};
/// Memory of this process. The system provides each page when it is first touched.
Allocator pages();

/// One arena per kind. Spans taken from it are valid as long as the Memory exists. Each rank has one.
class Memory {
 public:
  /// Only counts. take() returns spans of the right size with data() == nullptr, which must not be read or written.
  explicit Memory(Images images = Images::none);
  /// Reserves exactly the planned bytes, filled with zeros: `staging` provides those of Kind::staging, `arenas` all others.
  /// images: as when they were counted.
  explicit Memory(const Ledger& planned, const Allocator& arenas = pages(), const Allocator& staging = pages(),
                  Images images = Images::none);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  bool counting() const { return counting_; }

  /// Takes `elements` elements of T, aligned to 64 bytes, and their image if `use` asks for one. Fails if the plan has fewer
  /// bytes; the error names kind and label. If two buffers are adjacent in their arena and both have images, so are these.
  template <typename T>
  Span<T> take(Kind kind, std::size_t elements, const char* label, Use use = Use::kernels) {
    return {static_cast<T*>(take_bytes(kind, elements * sizeof(T), label, use)), elements};
  }

  /// Bytes taken so far, by kind. take() counts them; they are not copied from the plan, so that the two can be compared.
  const Ledger& taken() const { return taken_; }

  /// The buffers in the order in which they were taken, without images, for reports. `bytes` includes the padding to 64
  /// bytes.
  struct Entry {
    Kind kind;
    std::string label;
    std::size_t bytes;
    Use use = Use::kernels;
  };
  const std::vector<Entry>& entries() const { return entries_; }

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
  void* take_bytes(Kind kind, std::size_t bytes, const char* label, Use use);
  void require_room(std::size_t taken, std::size_t more, std::size_t planned, const char* label, const char* what) const;
  bool has_image(Kind kind, Use use) const;
  std::byte* first_image(Kind kind) const;
  const Allocator& allocator(Kind kind) const { return kind == Kind::staging ? staging_ : arenas_; }

  bool counting_;
  Images images_;
  Allocator arenas_ = pages(), staging_ = pages();
  Ledger planned_, taken_;
  std::array<std::byte*, kinds.size()> base_{};
  std::vector<Entry> entries_;
};

}  // namespace shoal
