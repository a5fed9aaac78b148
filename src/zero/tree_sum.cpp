// SPDX-License-Identifier: Apache-2.0
#include "zero/tree_sum.hpp"

#include <bit>
#include <cstdint>
#include <limits>

#include "shoal/base/error.hpp"

namespace shoal::zero {

namespace {

/// A node of the tree: granules [begin, begin + width), width a power of two; those beyond the buffer's end are absent.
struct Node {
  std::size_t begin, width;
  Range within(std::size_t granules) const { return intersection({begin, begin + width}, {0, granules}); }
  Node left() const { return {begin, width / 2}; }
  Node right() const { return {begin + width / 2, width / 2}; }
};

Node root(std::size_t granules) { return {0, std::bit_ceil(granules)}; }

bool contains(Range outer, Range inner) { return outer.begin <= inner.begin && inner.end <= outer.end; }

/// Returns value(range) of a leaf, and otherwise the sum of both halves; an absent half is skipped.
template <typename IsLeaf, typename Value>
double evaluate(Node node, std::size_t granules, const IsLeaf& is_leaf, const Value& value) {
  const Range range = node.within(granules);
  if (is_leaf(range)) return value(range);
  const double left = evaluate(node.left(), granules, is_leaf, value);
  if (node.right().within(granules).empty()) return left;
  return left + evaluate(node.right(), granules, is_leaf, value);
}

template <typename Use>
void visit_subtrees(Node node, std::size_t granules, Range own, const Use& visit) {
  const Range range = node.within(granules);
  if (intersection(range, own).empty()) return;
  if (contains(own, range)) {
    visit(node);
    return;
  }
  visit_subtrees(node.left(), granules, own, visit);
  visit_subtrees(node.right(), granules, own, visit);
}

}  // namespace

kernels::Subtrees subtrees(std::size_t granules, Range own) {
  require(own.size() <= std::numeric_limits<std::uint32_t>::max(), own.size(), " sums are more than a tree can have");
  kernels::Subtrees result;
  if (granules == 0) return result;
  visit_subtrees(root(granules), granules, own, [&](Node node) {
    require(result.count < kernels::Subtrees::most, "more than ", kernels::Subtrees::most, " subtrees in a shard");
    const Range range = node.within(granules);  // they follow each other without gaps
    result.begin[result.count++] = static_cast<std::uint32_t>(range.begin - own.begin);
    result.begin[result.count] = static_cast<std::uint32_t>(range.end - own.begin);
  });
  return result;
}

std::size_t subtree_count(std::size_t granules, Range own) {
  std::size_t count = 0;
  if (granules != 0) visit_subtrees(root(granules), granules, own, [&](Node) { ++count; });
  return count;
}

double join_subtrees(std::size_t granules, const std::vector<Range>& owners, const std::vector<Span<const double>>& values) {
  if (granules == 0) return 0.0;
  std::vector<std::size_t> next(owners.size(),
                                0);  // subtrees are visited left to right, so those of a rank are used in order
  std::size_t owner = 0;
  return evaluate(
      root(granules), granules,
      [&](Range r) {
        while (owners[owner].end <= r.begin) ++owner;
        return contains(owners[owner], r);
      },
      [&](Range) {
        require(next[owner] < values[owner].size(), "subtree sums of rank ", owner, " are incomplete");
        return values[owner][next[owner]++];
      });
}

}  // namespace shoal::zero
