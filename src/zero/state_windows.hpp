// SPDX-License-Identifier: Apache-2.0
// Windows of memory in which kernels use states that wait in a tier they do not reach. Of three windows one is used, the
// next tile comes up to another one, and what was used last goes down from the third:
//
//   tile k       up   use  down
//   tile k + 1        up   use  down
//   tile k + 2             up   use  ...
//
// Tiles are swept in their order, again and again. Whoever sweeps them sees the bits of states that never moved.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "shoal/base/memory.hpp"
#include "shoal/device/tier.hpp"

namespace shoal::zero {

class StateWindows {
 public:
  /// The moved states of a tile, each of which begins with a block of a buffer (device::Tier).
  using States = std::vector<Span<std::byte>>;

  StateWindows() = default;
  /// tiles: none may be empty. Takes memory for three windows of the largest.
  StateWindows(std::vector<States> tiles, Memory& memory);

  /// Starts to bring up the first tiles of the next sweep, if that has not been done. They must not be written meanwhile,
  /// except by that sweep.
  void begin_sweep();
  /// Waits for the next tile, and starts to bring up the one after it.
  void open_next();
  /// The address of a part of the open tile's states: in the window if it is one of these, otherwise its own.
  std::byte* here(std::byte* state) const;
  template <typename T>
  Span<T> here(Span<T> state) const {
    return {reinterpret_cast<T*>(here(reinterpret_cast<std::byte*>(state.data()))), state.size()};
  }
  /// Ends the use of the open tile. changed: it goes down.
  void close(bool changed);
  /// Waits for all that goes down.
  void finish();
  /// Forgets what was brought up for the next sweep: the states were written by others.
  void forget();

 private:
  static constexpr std::size_t windows = 3;
  struct Window {
    Span<std::byte> memory;
    device::Tier* tier = nullptr;
    std::vector<device::Tier::Ticket> tickets;  // of the transfers in flight, of one tile
    bool up = false;                            // they bring it up
  };
  Window& window(std::size_t tile) { return windows_[tile % windows]; }
  void bring_up(std::size_t tile);
  void wait(Window& of);
  template <typename Use>
  void for_each_part(std::size_t tile, const Use& use) const;

  std::vector<States> tiles_;
  std::array<Window, windows> windows_;
  std::size_t brought_ = 0;  // tiles of the sweep that were brought up, or are on their way
  std::size_t opened_ = 0;   // tiles of the sweep that were opened
  bool open_ = false;
};

}  // namespace shoal::zero
