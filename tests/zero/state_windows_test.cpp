// SPDX-License-Identifier: Apache-2.0
#include "zero/state_windows.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include "late_tier.hpp"
#include "shoal/device/memory.hpp"
#include "shoal/zero/state_places.hpp"
#include "shoal/zero/update_tiles.hpp"

namespace shoal::zero::test {
namespace of_state_windows_test {

constexpr std::size_t states = 2;

/// So many tiles of two states in the tier, of 1000 elements each and a last one of 30.
class Moved {
 public:
  explicit Moved(std::size_t tiles) : memory_([&](Memory& memory) { take(memory, tiles); }), tier_(memory_) {}

  StateWindows& windows() { return *windows_; }
  Span<float> state(std::size_t tile, std::size_t number) { return states_[tile * states + number]; }
  std::vector<float> values(std::size_t tile, std::size_t number) {
    std::vector<float> found(state(tile, number).size());
    tier_.read(std::as_bytes(state(tile, number)), std::as_writable_bytes(Span<float>(found)));
    return found;
  }
  const LateTier& tier() const { return tier_; }

 private:
  void take(Memory& memory, std::size_t tiles) {
    states_.clear();
    std::vector<StateWindows::States> all;
    for (std::size_t tile = 0; tile < tiles; ++tile) {
      StateWindows::States& of_tile = all.emplace_back();
      for (std::size_t number = 0; number < states; ++number) {
        const std::size_t elements = tile + 1 == tiles ? 30 : 1000;
        states_.push_back(memory.take<float>(Kind::moments, elements, "moments", Use::kernels, Where::nvme));
        of_tile.push_back(std::as_writable_bytes(states_.back()));
      }
    }
    windows_ = std::make_unique<StateWindows>(std::move(all), memory);
  }

  std::vector<Span<float>> states_;
  std::unique_ptr<StateWindows> windows_;
  device::DeviceMemory memory_;
  LateTier tier_;
};

/// Adds to each element its tile, state and index.
void sweep(Moved& moved, std::size_t tiles, bool changed) {
  StateWindows& windows = moved.windows();
  windows.begin_sweep();
  for (std::size_t tile = 0; tile < tiles; ++tile) {
    windows.open_next();
    for (std::size_t number = 0; number < states; ++number) {
      const Span<float> here = windows.here(moved.state(tile, number));
      for (std::size_t i = 0; i < here.size(); ++i) here[i] += static_cast<float>(tile * 7000 + number * 3000 + i);
      EXPECT_EQ(windows.here(moved.state(tile, number).subspan(5, 3)).data(), here.data() + 5);
    }
    windows.close(changed);
  }
}

void expect_sweeps(Moved& moved, std::size_t tiles, std::size_t sweeps) {
  for (std::size_t tile = 0; tile < tiles; ++tile) {
    for (std::size_t number = 0; number < states; ++number) {
      const std::vector<float> found = moved.values(tile, number);
      for (std::size_t i = 0; i < found.size(); ++i) {
        ASSERT_EQ(found[i], static_cast<float>(sweeps * (tile * 7000 + number * 3000 + i)))
            << tile << ' ' << number << ' ' << i;
      }
    }
  }
}

TEST(StateWindows, SweepsWriteEveryTile) {
  for (const std::size_t tiles : {1U, 2U, 3U, 4U, 5U, 6U, 7U}) {
    Moved moved(tiles);
    for (std::size_t count = 1; count <= 4; ++count) sweep(moved, tiles, true);
    expect_sweeps(moved, tiles, 4);
  }
}

TEST(StateWindows, ASweepThatChangesNothingLeavesTheTier) {
  Moved moved(5);
  sweep(moved, 5, true);
  sweep(moved, 5, false);
  sweep(moved, 5, true);
  expect_sweeps(moved, 5, 2);
}

TEST(StateWindows, TheNextTilesComeUpMeanwhile) {
  Moved moved(6);
  moved.windows().begin_sweep();
  EXPECT_EQ(moved.tier().most_open(), 2 * states);
  for (int tile = 0; tile < 6; ++tile) {
    moved.windows().open_next();
    moved.windows().close(true);
  }
  EXPECT_EQ(moved.tier().most_open(), 3 * states);  // one is used, two are on their way or the other way
}

TEST(StateWindows, WhatOthersWriteIsSeenAfterForget) {
  Moved moved(2);
  StateWindows& windows = moved.windows();
  windows.begin_sweep();
  windows.forget();
  const std::vector<float> seven(1000, 7);
  device::tier_of(moved.state(0, 0).data())
      ->write(std::as_bytes(Span<const float>(seven)), std::as_writable_bytes(moved.state(0, 0)));
  windows.begin_sweep();
  windows.open_next();
  EXPECT_EQ(windows.here(moved.state(0, 0))[3], 7);
  windows.close(false);
}

TEST(StateWindows, AddressesThatDoNotMoveStay) {
  Moved moved(1);
  std::vector<float> other(4);
  moved.windows().begin_sweep();
  moved.windows().open_next();
  EXPECT_EQ(moved.windows().here(Span<float>(other)).data(), other.data());
  moved.windows().close(false);
}

ShardLayout shard(std::size_t elements, Range own) {
  ShardLayout layout;
  layout.elements = elements;
  layout.shard = layout.optimizer = own;
  return layout;
}

TEST(UpdateTiles, CoverEveryShardOnce) {
  const std::vector<ShardLayout> layouts = {shard(1000, {0, 500}), shard(0, {}),
                                            shard(3 * tile_elements, {64, 2 * tile_elements + 80})};
  const std::vector<Tile> tiles = update_tiles(layouts, {false, false, true});
  ASSERT_EQ(tiles.size(), 4U);
  EXPECT_EQ(tiles[0].elements, (Range{0, 500}));
  EXPECT_FALSE(tiles[0].moved);
  EXPECT_EQ(tiles[1].elements, (Range{64, 64 + tile_elements}));
  EXPECT_EQ(tiles[2].elements, (Range{64 + tile_elements, 64 + 2 * tile_elements}));
  EXPECT_EQ(tiles[3].elements, (Range{64 + 2 * tile_elements, 80 + 2 * tile_elements}));
  EXPECT_TRUE(tiles[3].moved);
  EXPECT_EQ(update_tiles(layouts, {false, false, false}).size(), 2U);
}

TEST(StatePlaces, TheLastUnitsGoDown) {
  const std::vector<ShardLayout> layouts = {shard(600, {0, 600}), shard(300, {0, 300}), shard(100, {0, 100})};
  const auto down = [&](double ratio, int stage) {
    std::string text;
    for (const StatePlaces& of :
         state_places({Where::nvme, ratio, Where::device}, stages[static_cast<std::size_t>(stage)], layouts)) {
      text += of.optimizer == Where::nvme ? of.gradients == Where::cpu ? "G" : "o" : "-";
    }
    return text;
  };
  EXPECT_EQ(down(1, 1), "ooo");
  EXPECT_EQ(down(1, 2), "GGG");
  EXPECT_EQ(down(0.4, 2), "-GG");
  EXPECT_EQ(down(0.39, 3), "--G");
  EXPECT_EQ(down(0.05, 3), "---");
  EXPECT_EQ(down(1, 0), "---");
}

}  // namespace of_state_windows_test
}  // namespace shoal::zero::test
