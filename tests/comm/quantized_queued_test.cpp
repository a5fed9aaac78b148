// SPDX-License-Identifier: Apache-2.0
// Quantized collectives on queued groups: everything is enqueued at the start, each all-to-all is one exchange, and the
// results have the bits of the form that the host drives.
#include <algorithm>
#include <array>
#include <cstring>

#include "quantized_cases.hpp"
#include "queued_wrapper.hpp"
#include "shoal/base/names.hpp"

namespace shoal::comm::quantized_test {
namespace of_quantized_queued_test {

constexpr int rounds = 2;  // in the second one there are residuals to add

/// Nodes of one and two ranks, and one node of all.
std::vector<std::size_t> node_sizes() {
  std::vector<std::size_t> sizes{1};
  if (world_size() > 2 && world_size() % 2 == 0) sizes.push_back(2);
  if (world_size() > 1) sizes.push_back(world_size());
  return sizes;
}

template <typename T>
::testing::AssertionResult same(const std::vector<T>& x, const std::vector<T>& y) {
  if (x.size() != y.size()) return ::testing::AssertionFailure() << x.size() << " and " << y.size() << " elements";
  const auto* const a = reinterpret_cast<const std::byte*>(x.data());
  const auto* const b = reinterpret_cast<const std::byte*>(y.data());
  const auto differ = std::mismatch(a, a + x.size() * sizeof(T), b).first - a;
  if (static_cast<std::size_t>(differ) == x.size() * sizeof(T)) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "byte " << differ << " of " << x.size() * sizeof(T) << " differs";
}

/// The largest power of two that divides the ranks of a node.
int places(const Communicator& node) { return node.size() & -node.size(); }

/// The groups of a division into nodes, wrapped.
struct QueuedGroups {
  QueuedGroups() : QueuedGroups(Nodes::groups()) {}
  explicit QueuedGroups(const Hierarchy& host)
      : all(host.all, places(host.node)), node(host.node, places(host.node)), across(host.across) {}
  Hierarchy groups() { return {all, node, across}; }
  QueuedWrapper all, node, across;
};

/// All that a collective leaves, and what it sent.
template <typename T>
struct Outcome {
  std::vector<std::vector<T>> data;  // by round
  std::vector<float> within, across;
  std::vector<QuantError> errors = std::vector<QuantError>(kernels::quant_error_parts);
  Traffic sent;
};

template <typename T>
void expect_same(const Outcome<T>& host, const Outcome<T>& queued) {
  EXPECT_EQ(host.data.size(), queued.data.size());
  for (std::size_t r = 0; r < host.data.size(); ++r) EXPECT_TRUE(same(host.data[r], queued.data[r])) << "round " << r;
  EXPECT_TRUE(same(host.within, queued.within)) << "residuals within the node";
  EXPECT_TRUE(same(host.across, queued.across)) << "residuals across nodes";
  EXPECT_TRUE(same(host.errors, queued.errors)) << "errors";
  EXPECT_EQ(host.sent.intra, queued.sent.intra);
  EXPECT_EQ(host.sent.inter, queued.sent.inter);
}

std::size_t elements_of(const Lengths& lengths) {
  std::size_t elements = 0;
  for (const auto& block : lengths) elements += sum_of(block);
  return elements;
}

Traffic sent_in(const char* name) {
  const auto all = traffic();
  const auto found = all.find(name);
  return found == all.end() ? Traffic{} : found->second;
}

/// Over all ranks. If blocks differ in size, what a single rank sends depends on the order of the exchanges.
Traffic sent_by_all(const Traffic& own) {
  std::array<std::uint64_t, 2> sums = {own.intra, own.inter};
  test::world().all().all_reduce(Span<std::uint64_t>(sums), Reduce::sum).wait();
  return {sums[0], sums[1]};
}

template <typename T>
Outcome<T> reduced(const Hierarchy& groups, const Lengths& lengths, const ReduceFormats& formats, bool feedback) {
  const auto rank = static_cast<std::size_t>(groups.all.rank());
  const auto locals = static_cast<std::size_t>(groups.node.size());
  std::size_t most = 0, spans = 0, column = 0;
  for (std::size_t b = 0; b < lengths.size(); ++b) {
    most = std::max(most, sum_of(lengths[b]));
    spans = std::max(spans, lengths[b].size());
    if (b % locals == rank % locals) column += sum_of(lengths[b]);
  }
  Outcome<T> outcome;
  if (feedback) {
    outcome.within.resize(elements_of(lengths));
    outcome.across.resize(column);
  }
  std::vector<std::byte> scratch(
      quantized_reduce_scratch_bytes(groups.node.size(), groups.across.size(), most, spans, formats));
  reset_traffic();
  for (std::size_t r = 0; r < std::size_t{rounds}; ++r) {
    Buffer<T> buffer(lengths, rank, r);
    Request request = quantized_reduce_scatter(groups, buffer.blocks, dtype_of<T>, formats, scratch,
                                               {outcome.within, outcome.across}, outcome.errors.data());
    // The groups' memory is that of the host, so what is enqueued is done.
    if (groups.all.queued()) outcome.data.push_back(buffer.data);
    request.wait();
    if (!groups.all.queued()) outcome.data.push_back(buffer.data);
  }
  outcome.sent = sent_in("reduce_scatter");
  return outcome;
}

template <typename T>
Outcome<T> gathered(Communicator& group, const Lengths& lengths, const QuantFormat& format, bool feedback) {
  const auto rank = static_cast<std::size_t>(group.rank());
  std::size_t spans = 0;
  for (const auto& block : lengths) spans += block.size();
  Outcome<T> outcome;
  if (feedback) outcome.within.resize(sum_of(lengths[rank]));
  std::vector<std::byte> scratch(quantized_gather_scratch_bytes(group.size(), elements_of(lengths), spans, format));
  reset_traffic();
  for (std::size_t r = 0; r < std::size_t{rounds}; ++r) {
    Buffer<T> buffer(lengths, rank, r);
    Request request =
        quantized_all_gather(group, buffer.blocks, dtype_of<T>, format, scratch, outcome.errors.data(), outcome.within);
    if (group.queued()) outcome.data.push_back(buffer.data);
    request.wait();
    if (!group.queued()) outcome.data.push_back(buffer.data);
  }
  outcome.sent = sent_by_all(sent_in("all_gather"));
  return outcome;
}

/// One layout with both ways of rounding, and one with empty blocks.
struct Case {
  Lengths lengths;
  ReduceFormats formats;
  bool feedback;
};
std::vector<Case> cases() {
  std::vector<Case> result;
  for (const ReduceFormats& formats : {ReduceFormats{int8, int4}, ReduceFormats{as_deepspeed, as_deepspeed}}) {
    result.push_back({layouts()[1], formats, true});
  }
  result.push_back({layouts()[2], {int8, int4}, false});
  return result;
}

class QuantizedQueued : public Quantized {
 protected:
  template <typename T>
  static void compare(QueuedGroups& queued, const Case& c) {
    SCOPED_TRACE(testing::Message() << "nodes of " << queued.node.size() << ", " << c.formats.node.bits << " and "
                                    << c.formats.across.bits << " bits, " << name_of(dtype_of<T>));
    const Hierarchy host = Nodes::groups();
    {
      SCOPED_TRACE("reduce_scatter");
      const int within = queued.node.exchanges(), across = queued.across.exchanges(), all = queued.all.exchanges();
      expect_same(reduced<T>(host, c.lengths, c.formats, c.feedback),
                  reduced<T>(queued.groups(), c.lengths, c.formats, c.feedback));
      EXPECT_EQ(queued.node.exchanges() - within, host.node.size() > 1 ? rounds : 0);
      EXPECT_EQ(queued.across.exchanges() - across, host.across.size() > 1 ? rounds : 0);
      EXPECT_EQ(queued.all.exchanges() - all, 0);
    }
    if (queued.node.size() > 1) return;  // nodes change only the traffic of a gather
    SCOPED_TRACE("all_gather");
    expect_same(gathered<T>(host.all, c.lengths, c.formats.node, c.feedback),
                gathered<T>(queued.all, c.lengths, c.formats.node, c.feedback));
  }
};

TEST_F(QuantizedQueued, HasTheBitsOfTheHostDrivenFormInOneExchangePerStep) {
  for (const std::size_t locals : node_sizes()) {
    const Nodes nodes(locals);
    QueuedGroups queued;
    for (const Case& c : cases()) compare<float>(queued, c);
    compare<bf16>(queued, cases().front());
  }
}

}  // namespace of_quantized_queued_test
}  // namespace shoal::comm::quantized_test
