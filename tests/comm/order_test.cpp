// SPDX-License-Identifier: Apache-2.0
// [Note: no message waits for another] in src/comm/operations/messages.hpp, for more ranks than a test can start:
// for_each_message() makes the lists of messages, and each rank has only the first few of its list in flight.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <vector>

#include "comm/collectives/tree_stages.hpp"

namespace shoal::comm {
namespace of_order_test {

struct Item {
  std::size_t place, message;
  bool operator==(const Item&) const = default;
};
using Lists = std::vector<std::deque<Item>>;  // by rank: its messages, in order, each with the other rank

Lists lists_of(std::size_t places, std::size_t messages) {
  std::vector<std::size_t> numbers(messages);
  for (std::size_t m = 0; m < messages; ++m) numbers[m] = m;
  const std::vector<std::vector<std::size_t>> by_place(places, numbers);
  Lists lists(places);
  for (std::size_t own = 0; own < places; ++own) {
    for_each_message(own, by_place, [&](std::size_t other, std::size_t m) { lists[own].push_back({other, m}); });
  }
  return lists;
}

/// Returns true if all messages arrive although a message can arrive only while it is among the first `window` of the lists
/// of both of its ranks.
bool all_arrive(Lists sends, Lists receives, std::size_t window) {
  const auto among_first = [&](std::deque<Item>& list, const Item& item) {
    const auto end = list.begin() + static_cast<std::ptrdiff_t>(std::min(window, list.size()));
    const auto found = std::find(list.begin(), end, item);
    return found == end ? list.end() : found;
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t from = 0; from < sends.size(); ++from) {
      for (std::size_t i = 0; i < std::min(window, sends[from].size()); ++i) {
        const Item item = sends[from][i];
        const auto place = among_first(receives[item.place], {from, item.message});
        if (place == receives[item.place].end()) continue;
        receives[item.place].erase(place);
        sends[from].erase(sends[from].begin() + static_cast<std::ptrdiff_t>(i));
        moved = true;
        break;
      }
    }
  }
  return std::all_of(receives.begin(), receives.end(), [](const auto& list) { return list.empty(); });
}

TEST(Partners, AreEachOthersInOneRound) {
  for (const std::size_t size : {1U, 2U, 3U, 8U, 35U}) {
    for (std::size_t own = 0; own < size; ++own) {
      std::vector<std::size_t> partners = partners_in_order(own, size);
      for (std::size_t i = 1; i < partners.size(); ++i) EXPECT_LT(partners[i - 1] ^ own, partners[i] ^ own);
      partners.push_back(own);
      std::sort(partners.begin(), partners.end());
      for (std::size_t other = 0; other < size; ++other) EXPECT_EQ(partners.at(other), other) << own << " of " << size;
      EXPECT_EQ(partners.size(), size);
    }
  }
}

TEST(ForEachMessage, LeavesNoMessageWaitingForAnother) {
  for (const std::size_t places : {3U, 5U, 35U, 67U}) {
    for (const std::size_t window : {1U, 4U}) {
      const Lists lists = lists_of(places, 3);
      EXPECT_TRUE(all_arrive(lists, lists, window)) << places << " ranks, " << window << " messages at a time";
    }
  }
  Lists upwards(35);
  for (std::size_t own = 0; own < upwards.size(); ++own) {
    for (std::size_t i = 1; i < upwards.size(); ++i) upwards[own].push_back({(own + i) % upwards.size(), 0});
  }
  EXPECT_FALSE(all_arrive(upwards, upwards, 4)) << "round a circle in one direction they would";
}

}  // namespace of_order_test
}  // namespace shoal::comm
