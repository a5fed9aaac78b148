// SPDX-License-Identifier: Apache-2.0
#include "zero/state_windows.hpp"

#include <algorithm>
#include <utility>

#include "shoal/base/error.hpp"
#include "shoal/base/trace.hpp"
#include "shoal/device/memory.hpp"
#include "shoal/device/transfer_memory.hpp"

namespace shoal::zero {

namespace {

constexpr std::size_t alignment = device::Tier::alignment;

std::size_t window_bytes(const StateWindows::States& states) {
  std::size_t bytes = 0;
  for (const Span<std::byte> state : states) bytes += round_up(state.size(), alignment);
  return bytes;
}

device::Tier& tier_of(Span<const std::byte> state) {
  device::Tier* const tier = device::tier_of(state.data());
  require(tier != nullptr, "a state was moved to a tier that nobody serves");
  return *tier;
}

}  // namespace

StateWindows::StateWindows(std::vector<States> tiles, Memory& memory) : tiles_(std::move(tiles)) {
  std::size_t bytes = 0;
  for (const States& tile : tiles_) bytes = std::max(bytes, window_bytes(tile));
  if (bytes == 0) return;
  const Span<std::byte> all =
      device::take_for_transfers(memory, device::windows_kind(), windows * bytes, "windows of offloaded states");
  for (std::size_t w = 0; w < windows; ++w) windows_[w].memory = all.subspan(w * bytes, bytes);
}

/// Calls use(state, its place in the window).
template <typename Use>
void StateWindows::for_each_part(std::size_t tile, const Use& use) const {
  std::size_t at = 0;
  for (const Span<std::byte> state : tiles_[tile]) {
    const std::size_t bytes = round_up(state.size(), alignment);
    use(state, windows_[tile % windows].memory.subspan(at, bytes));
    at += bytes;
  }
}

void StateWindows::wait(Window& of) {
  if (of.tickets.empty()) return;
  const trace::Region region(trace::Level::comm, trace::Kind::wait, of.up ? "states up" : "states down");
  for (const device::Tier::Ticket ticket : std::exchange(of.tickets, {})) of.tier->wait(ticket);
}

void StateWindows::bring_up(std::size_t tile) {
  if (tile >= tiles_.size()) return;
  Window& to = window(tile);
  wait(to);  // for what goes down from it
  to.up = true;
  for_each_part(tile, [&](Span<std::byte> state, Span<std::byte> memory) {
    to.tier = &tier_of(state);
    to.tickets.push_back(to.tier->up(state, memory));
  });
}

void StateWindows::begin_sweep() {
  require(!open_ && opened_ == 0, "a sweep begins while another one is under way");
  for (; brought_ < std::min(windows - 1, tiles_.size()); ++brought_) bring_up(brought_);
}

void StateWindows::open_next() {
  require(!open_ && opened_ < tiles_.size(), "there is no next tile");
  for (; brought_ < std::min(opened_ + windows - 1, tiles_.size()); ++brought_) bring_up(brought_);
  wait(window(opened_));
  open_ = true;
}

std::byte* StateWindows::here(std::byte* state) const {
  if (!open_) return state;
  std::byte* found = state;
  for_each_part(opened_, [&](Span<std::byte> whole, Span<std::byte> memory) {
    if (whole.data() <= state && state < whole.data() + whole.size()) found = memory.data() + (state - whole.data());
  });
  return found;
}

void StateWindows::close(bool changed) {
  Window& of = window(opened_);
  if (changed) {
    of.up = false;
    for_each_part(opened_, [&](Span<std::byte> state, Span<std::byte> memory) {
      of.tickets.push_back(tier_of(state).down(memory.first(state.size()), state));
    });
  }
  open_ = false;
  if (++opened_ < tiles_.size()) return;
  opened_ = brought_ = 0;
}

void StateWindows::finish() {
  for (Window& window : windows_) {
    if (!window.up) wait(window);
  }
}

void StateWindows::forget() {
  require(!open_ && opened_ == 0, "states are written by others during a sweep");
  for (std::size_t tile = 0; tile < std::exchange(brought_, 0); ++tile) wait(window(tile));
}

}  // namespace shoal::zero
