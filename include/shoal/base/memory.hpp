// SPDX-License-Identifier: Apache-2.0
// Everything large lives in arenas that are sized once, before the first step. The size is found by running the very code
// that takes the memory against arenas that only count: so what the plan says and what a run takes are one number.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "shoal/base/types.hpp"

namespace shoal {

/// What a buffer holds. The first four are the model states (what a rank keeps between steps); activations live for one
/// micro-batch; buffers are gathered units, unreduced gradients, partial sums, messages and workspaces.
enum class Kind : std::uint8_t { parameters, master, gradients, moments, activations, buffers };
inline constexpr std::array kinds = {Kind::parameters, Kind::master,      Kind::gradients,
                                     Kind::moments,    Kind::activations, Kind::buffers};
const char* name_of(Kind kind);

/// Bytes by kind.
class Ledger {
 public:
  std::size_t& operator[](Kind kind) { return bytes_[static_cast<std::size_t>(kind)]; }
  std::size_t operator[](Kind kind) const { return bytes_[static_cast<std::size_t>(kind)]; }
  std::size_t total() const;
  bool operator==(const Ledger&) const = default;

 private:
  std::array<std::size_t, kinds.size()> bytes_{};
};

/// One arena per kind. Spans taken from it live as long as it does. Not copyable; one per rank.
class Memory {
 public:
  /// Counts only: take() returns spans of the right size without memory behind them (data() == nullptr). They must not
  /// be read or written.
  Memory();
  /// Reserves exactly what was counted, zero-filled. Pages are taken from the system when first touched.
  explicit Memory(const Ledger& planned);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  bool counting() const { return counting_; }

  /// elements of T, on a 64-byte border. Fails when the arena was planned smaller, naming kind and label.
  template <typename T>
  Span<T> take(Kind kind, std::size_t elements, const char* label) {
    return {static_cast<T*>(take_bytes(kind, elements * sizeof(T), label)), elements};
  }

  /// High-water mark by kind, as counted by take(); never read from the plan.
  const Ledger& taken() const { return taken_; }

  /// The buffers in the order taken, for the report: kind, label, bytes (borders included).
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
