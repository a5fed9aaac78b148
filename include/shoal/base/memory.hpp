// SPDX-License-Identifier: Apache-2.0
// Large buffers are taken from arenas whose sizes are fixed before the first step. To find the sizes, the code that takes
// the memory is first run on arenas that only count. So a run takes exactly the planned bytes.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "shoal/base/types.hpp"

namespace shoal {

/// The use of a buffer. The first four kinds are the model states, which a rank keeps between steps. Activations are needed
/// for one micro-batch. All else counts as `buffers`: gathered units, gradients of one micro-batch, partial sums, messages
/// and workspaces.
enum class Kind : std::uint8_t { parameters, master, gradients, moments, activations, buffers };
inline constexpr std::array kinds = {Kind::parameters, Kind::master,      Kind::gradients,
                                     Kind::moments,    Kind::activations, Kind::buffers};
const char* name_of(Kind kind);

/// Number of bytes of each kind.
class Ledger {
 public:
  std::size_t& operator[](Kind kind) { return bytes_[static_cast<std::size_t>(kind)]; }
  std::size_t operator[](Kind kind) const { return bytes_[static_cast<std::size_t>(kind)]; }
  std::size_t total() const;
  bool operator==(const Ledger&) const = default;

 private:
  std::array<std::size_t, kinds.size()> bytes_{};
};

/// One arena per kind. Spans taken from it are valid as long as the Memory exists. Each rank has one.
class Memory {
 public:
  /// Only counts. take() returns spans of the right size with data() == nullptr, which must not be read or written.
  Memory();
  /// Reserves exactly the planned bytes, filled with zeros. The system provides each page when it is first touched.
  explicit Memory(const Ledger& planned);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  bool counting() const { return counting_; }

  /// Takes `elements` elements of T, aligned to 64 bytes. Fails if the plan has fewer bytes; the error names kind and label.
  template <typename T>
  Span<T> take(Kind kind, std::size_t elements, const char* label) {
    return {static_cast<T*>(take_bytes(kind, elements * sizeof(T), label)), elements};
  }

  /// Bytes taken so far, by kind. take() counts them; they are not copied from the plan, so that the two can be compared.
  const Ledger& taken() const { return taken_; }

  /// The buffers in the order in which they were taken, for reports. `bytes` includes the padding to 64 bytes.
  struct Entry {
    Kind kind;
    std::string label;
    std::size_t bytes;
  };
  const std::vector<Entry>& entries() const { return entries_; }

 private:
  void* take_bytes(Kind kind, std::size_t bytes, const char* label);

  bool counting_;
  Ledger planned_, taken_;
  std::array<std::byte*, kinds.size()> base_{};
  std::vector<Entry> entries_;
};

}  // namespace shoal
