// SPDX-License-Identifier: Apache-2.0
#include "comm/hang/hang_report.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include "shoal/base/counted.hpp"
#include "shoal/base/error.hpp"

namespace shoal::comm {

namespace {

using activity::Picture;

constexpr std::size_t most_lines = 40, most_disagreements = 8;

/// In the order in which they are listed.
enum class State { hangs, unknown, works, waits };

State state_of(const RankState& rank) {
  if (rank.silent) return State::hangs;
  if (!rank.picture) return State::unknown;
  return rank.picture->waits != 0 ? State::waits : State::works;
}

std::string group_name(int group, const std::vector<GroupKind>& groups) {
  const auto at = static_cast<std::size_t>(group);
  return group >= 0 && at < groups.size() ? groups[at].name : text("number ", group);
}

std::string words_for(char process) {
  switch (process) {
    case 'T':
    case 't': return ", its process is stopped (state T)";
    case 'D': return ", its process waits for a disk or a file system (state D)";
    case 'R': return ", its process runs";
    case 'S': return ", its process sleeps";
    default: return "";
  }
}

/// "in phase step, step 17, unit h.3".
std::string place_of(const Picture& picture) {
  std::string place = text("in phase ", activity::text_of(picture.phase));
  if (picture.step > 0) place += text(", step ", picture.step);
  if (picture.unit >= 0) place += text(", unit ", activity::unit_name(picture.unit));
  return place;
}

std::string last_wait(const Picture& picture, const std::vector<GroupKind>& groups) {
  if (picture.since_s < 0) return "it has not waited for an operation yet";
  return text(picture.waits != 0 ? "in " : "after ", words_of(picture.operation, groups));
}

/// A line of the table, for the ranks whose words are the same.
struct Line {
  State state;
  std::string singular, plural;  // what follows "rank 3" and "ranks 3-5"
  std::string after;             // what follows the duration

  bool operator<(const Line& other) const {
    return std::tie(state, singular, after) < std::tie(other.state, other.singular, other.after);
  }
};

struct AlikeRanks {
  std::vector<int> ranks;
  double least_s = -1, most_s = -1;  // for how long; below 0: not known

  void add(int rank, double seconds) {
    least_s = ranks.empty() ? seconds : std::min(least_s, seconds);
    most_s = std::max(most_s, seconds);
    ranks.push_back(rank);
  }
  std::string duration() const {
    const auto low = std::llround(std::floor(least_s)), high = std::llround(std::floor(most_s));
    return high < 0 ? "" : low == high || low < 0 ? text(" for ", high, " s") : text(" for ", low, " to ", high, " s");
  }
};

std::pair<Line, double> line_of(const RankState& rank, const std::vector<GroupKind>& groups) {
  const State state = state_of(rank);
  if (!rank.picture) {
    return {{state, rank.silent ? " does not answer" : " has not answered",
             rank.silent ? " do not answer" : " have not answered",
             "; where it is is not known: no other rank can read the memory of its node"},
            -1};
  }
  const Picture& picture = *rank.picture;
  switch (state) {
    case State::hangs:
      return {{state, " shows no sign of life", " show no sign of life",
               text(words_for(rank.process), ", ", place_of(picture), ", ", last_wait(picture, groups))},
              picture.silent_s};
    case State::waits: {
      const std::string words = words_of(picture.operation, groups);
      return {{state, " waits for " + words, " wait for " + words, text(", in phase ", activity::text_of(picture.phase))},
              picture.since_s};
    }
    case State::works:
    case State::unknown: break;
  }
  const std::string where = text(place_of(picture), ", ", last_wait(picture, groups));
  return {{state, " is at work", " are at work", text(", ", where)}, picture.since_s};
}

std::string ranks_and(const std::vector<int>& ranks) { return (ranks.size() == 1 ? "rank " : "ranks ") + ranks_text(ranks); }

/// Returns true if a rank of this part waits for a collective of the group.
bool somebody_waits(const std::vector<RankState>& ranks, const std::vector<int>& members, int group) {
  return std::any_of(members.begin(), members.end(), [&](int r) {
    const auto& picture = ranks[static_cast<std::size_t>(r)].picture;
    return picture && picture->waits != 0 && picture->operation.group == group;
  });
}

/// "of group all, ranks 0, 2 have started 12 collectives, rank 1 has started 11".
std::string different_counts(const std::vector<RankState>& ranks, const std::vector<int>& members, int group,
                             const std::vector<GroupKind>& groups) {
  std::map<std::uint64_t, std::vector<int>, std::greater<>> by_count;
  for (const int r : members) {
    const auto& picture = ranks[static_cast<std::size_t>(r)].picture;
    if (picture) by_count[picture->started[static_cast<std::size_t>(group)]].push_back(r);
  }
  if (by_count.size() < 2) return {};
  std::string line = text("  of group ", group_name(group, groups));
  std::size_t named = 0;
  for (const auto& [count, who] : by_count) {
    if (++named > most_disagreements) {
      line += text(", and ", by_count.size() - most_disagreements, " other counts");
      break;
    }
    line += text(", ", ranks_and(who), who.size() == 1 ? " has" : " have", " started ",
                 named == 1 ? counted(count, "collective") : text(count));
  }
  return line + "\n";
}

/// "number 12 of group all is all_gather of unit h.3, step 17 on ranks 0, 2, but barrier, step 17 on rank 1".
std::string different_collectives(const std::vector<RankState>& ranks, const std::vector<int>& members, int group,
                                  const std::vector<GroupKind>& groups) {
  std::map<std::uint64_t, std::map<std::string, std::vector<int>>> by_number;
  for (const int r : members) {
    const auto& picture = ranks[static_cast<std::size_t>(r)].picture;
    if (!picture || picture->waits == 0 || picture->operation.group != group || picture->operation.number == 0) continue;
    activity::Operation plain = picture->operation;
    plain.number = 0;
    plain.group = -1;
    by_number[picture->operation.number][words_of(plain, groups)].push_back(r);
  }
  std::string lines;
  for (const auto& [number, by_words] : by_number) {
    if (by_words.size() < 2) continue;
    lines += text("  number ", number, " of group ", group_name(group, groups), " is ");
    bool first = true;
    for (const auto& [words, who] : by_words) {
      lines += text(std::exchange(first, false) ? "" : ", but ", words, " on ", ranks_and(who));
    }
    lines += "\n";
  }
  return lines;
}

std::string disagreements(const std::vector<RankState>& ranks, const std::vector<GroupKind>& groups) {
  std::string lines;
  std::size_t found = 0;
  for (int group = 0; group < static_cast<int>(std::min(groups.size(), activity::most_groups)); ++group) {
    std::map<int, std::vector<int>> parts;
    const std::vector<int>& part_of = groups[static_cast<std::size_t>(group)].part_of;
    for (std::size_t r = 0; r < std::min(ranks.size(), part_of.size()); ++r)
      parts[part_of[r]].push_back(static_cast<int>(r));
    for (const auto& [part, members] : parts) {
      if (members.size() < 2 || !somebody_waits(ranks, members, group)) continue;
      const std::string more =
          different_counts(ranks, members, group, groups) + different_collectives(ranks, members, group, groups);
      if (!more.empty() && ++found <= most_disagreements) lines += more;
    }
  }
  return lines;
}

}  // namespace

std::string ranks_text(const std::vector<int>& ranks) {
  std::string result;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    result += text(i == 0 ? "" : ", ", ranks[i]);
    if (end - i == 2) result += text(", ", ranks[end - 1]);
    if (end - i > 2) result += text("-", ranks[end - 1]);
    i = end;
  }
  return result;
}

std::string words_of(const activity::Operation& operation, const std::vector<GroupKind>& groups) {
  std::string words(activity::text_of(operation.name));
  if (operation.unit >= 0) words += text(" of unit ", activity::unit_name(operation.unit));
  if (operation.step > 0) words += text(", step ", operation.step);
  if (operation.number > 0) {
    words += text(" (number ", operation.number, " of group ", group_name(operation.group, groups), ")");
  } else if (operation.group >= 0) {
    words += text(" (group ", group_name(operation.group, groups), ")");
  }
  return words;
}

std::string hang_table(const std::vector<RankState>& ranks, const std::vector<GroupKind>& groups) {
  std::map<Line, AlikeRanks> lines;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const auto [line, seconds] = line_of(ranks[r], groups);
    lines[line].add(static_cast<int>(r), seconds);
  }
  std::string table;
  std::size_t printed = 0;
  for (const auto& [line, members] : lines) {
    if (++printed > most_lines) {
      table += text("  and ", lines.size() - most_lines, " other states\n");
      break;
    }
    table += text("  ", ranks_and(members.ranks), members.ranks.size() == 1 ? line.singular : line.plural,
                  members.duration(), line.after, "\n");
  }
  return table + disagreements(ranks, groups);
}

}  // namespace shoal::comm
