// SPDX-License-Identifier: Apache-2.0
// What the program for GPUs asks of cuDNN, and when it takes portable kernels instead. Here a double makes the graphs, which
// compute by portable kernels on the host: so the whole suite of attention runs through them, too.
#include "kernels/cuda/attention_graph.hpp"

#include <algorithm>
#include <cstdint>
#include <map>

#include "kernels/attention_properties.hpp"
#include "kernels/cuda/attention_parts.hpp"
#include "kernels/portable/attention.hpp"

namespace shoal::kernels {

using cuda::AttentionKey;
using cuda::AttentionTensors;
using Pass = AttentionKey::Pass;

namespace {

/// What the double does, and what it was asked.
struct Double {
  bool supports = true, computes = true;
  std::size_t workspace_bytes = 64;
  std::vector<AttentionKey> made;
  struct Run {
    AttentionKey key;
    AttentionTensors tensors;
    const std::byte* workspace;
  };
  std::vector<Run> runs;
};
Double library;

/// Copies rows of `count` elements between tensors.
template <typename T>
void copy_rows(std::size_t rows, std::size_t count, const T* from, std::size_t from_stride, T* to, std::size_t to_stride) {
  for (std::size_t r = 0; r < rows; ++r) std::copy_n(from + r * from_stride, count, to + r * to_stride);
}

/// The part by the portable kernels, on copies without gaps.
template <typename T>
void compute(const AttentionKey& key, const AttentionTensors& t) {
  const std::size_t channels = key.heads * key.head_size, rows = key.sequences * key.positions, wide = 3 * key.channels;
  const AttentionShape shape{key.sequences, key.positions, channels, key.heads};
  std::vector<T> qkv(rows * 3 * channels), out(rows * channels), dout(out.size()), dqkv(qkv.size());
  const void* const inputs[] = {t.q, t.k, t.v};
  for (std::size_t i = 0; i < 3; ++i) {
    copy_rows(rows, channels, static_cast<const T*>(inputs[i]), wide, qkv.data() + i * channels, 3 * channels);
  }
  if (key.pass == Pass::forward) {
    portable::attention_forward<T>(shape, qkv.data(), {.out = out.data(), .logsumexp = t.logsumexp}, {});
    copy_rows(rows, channels, out.data(), channels, static_cast<T*>(t.out), key.channels);
    return;
  }
  copy_rows(rows, channels, static_cast<const T*>(t.out), key.channels, out.data(), channels);
  copy_rows(rows, channels, static_cast<const T*>(t.dout), key.channels, dout.data(), channels);
  std::vector<std::byte> workspace(portable::attention_workspace_bytes(shape));
  portable::attention_backward<T>(shape,
                                  {.qkv = qkv.data(), .out = out.data(), .logsumexp = t.logsumexp, .dout = dout.data()},
                                  dqkv.data(), {}, workspace);
  void* const outputs[] = {t.dq, t.dk, t.dv};
  for (std::size_t i = 0; i < 3; ++i) {
    copy_rows(rows, channels, dqkv.data() + i * channels, 3 * channels, static_cast<T*>(outputs[i]), wide);
  }
}

class DoubledGraph : public cuda::AttentionGraph {
 public:
  explicit DoubledGraph(const AttentionKey& key) : key_(key), bytes_(library.workspace_bytes) {}
  std::size_t workspace_bytes() const override { return bytes_; }
  void run(const AttentionTensors& tensors, std::byte* workspace) override {
    library.runs.push_back({key_, tensors, workspace});
    std::fill_n(workspace, bytes_, std::byte{0xff});
    if (!library.computes) return;
    if (key_.element == AttentionKey::Element::bf16) {
      compute<bf16>(key_, tensors);
    } else {
      compute<f16>(key_, tensors);
    }
  }

 private:
  AttentionKey key_;
  std::size_t bytes_;
};

}  // namespace

namespace cuda {

std::unique_ptr<AttentionGraph> make_attention_graph(const AttentionKey& key, std::string& why) {
  library.made.push_back(key);
  if (library.supports) return std::make_unique<DoubledGraph>(key);
  why = "the double does not";
  return nullptr;
}

}  // namespace cuda

template <typename T>
std::vector<Implementation<T>> implementations() {
  return {{"cuDNN's double", attention_forward<T>, attention_backward<T>, 44, 31}};
}

namespace {

/// By the portable kernels alone.
template <typename T>
Implementation<T> portable_alone() {
  return {"portable",
          [](const AttentionShape& s, const T* qkv, const AttentionOutputs<T>& out, const Dropout& dropout,
             Span<std::byte>) { portable::attention_forward(s, qkv, out, dropout); },
          portable::attention_backward<T>, 44, 31};
}

/// Graphs are kept in the whole process, so each test has a number of positions of its own.
class AttentionByCudnn : public testing::Test {
  void SetUp() override { library = {}; }
  void TearDown() override { library = {}; }
};

/// Runs forward and backward. The results are those of the portable kernels.
template <typename T>
void run(const AttentionShape& shape, const Dropout& dropout = no_dropout) {
  Case<T> by_dispatch(shape, dropout), alone(shape, dropout);
  by_dispatch.run(implementations<T>().front());
  EXPECT_TRUE(same_results(by_dispatch, alone.run(portable_alone<T>())));
}

std::vector<std::pair<std::size_t, std::size_t>> parts_of(Pass pass) {
  std::vector<std::pair<std::size_t, std::size_t>> parts;
  for (const Double::Run& r : library.runs) {
    if (r.key.pass == pass) parts.emplace_back(r.key.sequences, r.key.heads);
  }
  return parts;
}
using SequencesAndHeads = std::vector<std::pair<std::size_t, std::size_t>>;

TEST_F(AttentionByCudnn, TakesBothHalfTypesWithoutDropout) {
  run<bf16>({2, 101, 48, 3});
  run<f16>({2, 101, 48, 3});
  ASSERT_EQ(library.runs.size(), 4);
  EXPECT_EQ(library.runs[0].key, (AttentionKey{Pass::forward, AttentionKey::Element::bf16, 2, 3, 101, 16, 48}));
  EXPECT_EQ(library.runs[3].key, (AttentionKey{Pass::backward, AttentionKey::Element::f16, 2, 3, 101, 16, 48}));
}

TEST_F(AttentionByCudnn, LeavesAllElseToPortableKernels) {
  run<float>({1, 102, 48, 3});
  run<bf16>({1, 102, 48, 3}, some_dropout);
  run<bf16>({1, 102, 36, 3});   // a head size of 12
  run<bf16>({1, 102, 136, 1});  // larger than 128
  run<f16>({1, 63, 48, 3});
  EXPECT_TRUE(library.made.empty());

  Case<bf16> odd({1, 102, 48, 3}, no_dropout);
  std::vector<bf16> out(odd.out.size() + 1);
  attention_forward<bf16>(odd.shape, odd.qkv.data(), {.out = out.data() + 1, .logsumexp = odd.logsumexp.data()}, {},
                          odd.workspace);
  EXPECT_TRUE(library.made.empty()) << "an address that is no multiple of 16";
}

TEST_F(AttentionByCudnn, MakesAGraphOncePerShape) {
  for (int step = 0; step < 3; ++step) run<bf16>({2, 103, 32, 2});
  EXPECT_EQ(library.made.size(), 2);
  EXPECT_EQ(library.runs.size(), 6);
  run<bf16>({1, 103, 32, 2});
  EXPECT_EQ(library.made.size(), 4);
}

TEST_F(AttentionByCudnn, WhatItCannotDoIsSaidOnceAndComputedByPortableKernels) {
  library.supports = false;
  testing::internal::CaptureStderr();
  for (int step = 0; step < 3; ++step) run<bf16>({1, 104, 32, 2});
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 2) << said;
  EXPECT_NE(
      said.find("attention's backward of 104 positions and head size 16 is computed by portable kernels, not by cuDNN: "
                "the double does not\n"),
      std::string::npos)
      << said;
  EXPECT_EQ(library.made.size(), 2);
  EXPECT_TRUE(library.runs.empty());
}

TEST_F(AttentionByCudnn, GraphsAreMadeBeforeTheyAreNeeded) {
  EXPECT_TRUE(prepare_attention<bf16>({2, 108, 32, 2}, true).empty());
  EXPECT_EQ(library.made.size(), 2);
  EXPECT_TRUE(prepare_attention<float>({2, 108, 32, 2}, true).empty());
  run<bf16>({2, 108, 32, 2});
  EXPECT_EQ(library.made.size(), 2);
  EXPECT_EQ(library.runs.size(), 2);
  EXPECT_TRUE(prepare_attention<bf16>({2, 109, 32, 2}, false).empty());
  EXPECT_EQ(library.made.size(), 3) << "without backward";
}

TEST_F(AttentionByCudnn, HeadsThatNoKernelTakesAreRefusedAtTheStart) {
  EXPECT_TRUE(prepare_attention<float>({1, 64, 2048, 2}, true).empty());
  try {
    prepare_attention<float>({1, 64, 2050, 2}, true);
    FAIL() << "not refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::bad_input);
    EXPECT_STREQ(
        error.what(),
        "model.n_embd = 2050: with model.n_head = 2 heads have 1025 channels; a GPU's attention takes at most 1024");
  }
}

TEST_F(AttentionByCudnn, WhatIsToldBeforeIsNotPrinted) {
  library.supports = false;
  testing::internal::CaptureStderr();
  const std::vector<std::string> lines = prepare_attention<bf16>({1, 110, 32, 2}, true);
  run<bf16>({1, 110, 32, 2});
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  ASSERT_EQ(lines.size(), 2);
  EXPECT_EQ(
      lines[0],
      "attention's forward of 110 positions and head size 16 is computed by portable kernels, not by cuDNN: the double "
      "does not");
}

TEST_F(AttentionByCudnn, AGraphThatNeedsMoreThanIsPlannedIsNotTaken) {
  const AttentionShape shape{1, 105, 32, 2};
  library.workspace_bytes = cuda::attention_part_workspace_bytes(shape) + 1;
  testing::internal::CaptureStderr();
  run<bf16>(shape);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(library.runs.empty());
  EXPECT_NE(said.find("bytes of workspace"), std::string::npos) << said;

  const AttentionShape other{1, 106, 32, 2};
  library.workspace_bytes = cuda::attention_part_workspace_bytes(other);
  run<bf16>(other);
  EXPECT_EQ(library.runs.size(), 2);
}

// Only addresses are compared, so that it is quick.
TEST_F(AttentionByCudnn, BackwardGoesThroughTheBatchInPartsThatFit) {
  library.computes = false;
  const AttentionShape shape{5, 1024, std::size_t{8} * 60, 60};
  ASSERT_EQ(cuda::attention_part(shape).sequences, 2);
  Case<bf16> c(shape, no_dropout);
  library.workspace_bytes = cuda::attention_part_workspace_bytes(shape);
  c.run(implementations<bf16>().front());
  EXPECT_EQ(parts_of(Pass::forward), (SequencesAndHeads{{5, 60}}));
  EXPECT_EQ(parts_of(Pass::backward), (SequencesAndHeads{{2, 60}, {2, 60}, {1, 60}}));
  EXPECT_EQ(library.made.size(), 3);
  const AttentionTensors& last = library.runs.back().tensors;
  const std::size_t rows = 4 * shape.T;
  EXPECT_EQ(last.k, c.qkv.data() + rows * 3 * shape.C + shape.C);
  EXPECT_EQ(last.dv, c.dqkv.data() + rows * 3 * shape.C + 2 * shape.C);
  EXPECT_EQ(last.dout, c.dout.data() + rows * shape.C);
  EXPECT_EQ(last.logsumexp, c.logsumexp.data() + rows * shape.NH);
  for (const Double::Run& r : library.runs) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(r.workspace) % 256, 0);
    EXPECT_GE(r.workspace, c.workspace.data());
    EXPECT_LE(r.workspace + library.workspace_bytes, c.workspace.data() + c.workspace.size());
  }
}

// Of an odd number of positions, later parts' logarithms begin at any float.
TEST_F(AttentionByCudnn, AllTensorsOfAllPartsAreAligned) {
  for (const AttentionShape shape : {AttentionShape{4, 1021, std::size_t{8} * 125, 125}, AttentionShape{1, 4095, 128, 16}}) {
    library = {};
    library.computes = false;
    Case<bf16> c(shape, no_dropout);
    library.workspace_bytes = cuda::attention_part_workspace_bytes(shape);
    c.run(implementations<bf16>().front());
    ASSERT_GT(library.runs.size(), 2U);
    for (const Double::Run& r : library.runs) {
      const AttentionTensors& t = r.tensors;
      for (const void* const at : {t.q, t.k, t.v, static_cast<const void*>(t.out), static_cast<const void*>(t.logsumexp)}) {
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(at) % 16, 0);
      }
      EXPECT_LE(r.workspace + library.workspace_bytes, c.workspace.data() + c.workspace.size());
    }
  }
}

// Of an odd number of positions, so that later parts read copied logarithms.
TEST_F(AttentionByCudnn, PartsOfASequenceAreHeads) {
  const AttentionShape shape{1, 4095, 128, 16};
  run<bf16>(shape);
  EXPECT_EQ(parts_of(Pass::backward), (SequencesAndHeads{{1, 7}, {1, 7}, {1, 2}}));
}

// From 9.25 on cuDNN takes another kernel above 256 MiB.
TEST_F(AttentionByCudnn, PartsNeedAtMost256MiB) {
  for (const std::size_t positions : {64, 1000, 1024, 2048, 4096, 8192}) {
    for (const std::size_t heads : {1, 12, 25, 128}) {
      const AttentionShape shape{64, positions, 64 * heads, heads};
      EXPECT_LE(cuda::attention_part_workspace_bytes(shape), std::size_t{256} << 20U) << positions << ", " << heads;
    }
  }
  // 125 heads fit, and no more.
  EXPECT_EQ(cuda::attention_part({64, 1024, 64 * 125, 125}).heads, 125);
  EXPECT_EQ(cuda::attention_part({64, 1024, 64 * 126, 126}).heads, 125);
}

TEST_F(AttentionByCudnn, TheWorkspaceIsBoundedAndServesBothKinds) {
  const auto bytes = [](const AttentionShape& s) { return attention_workspace_bytes<bf16>(s); };
  const AttentionShape small{1, 1024, 768, 12}, large{64, 1024, 768, 12};
  EXPECT_GT(bytes(large), bytes(small));
  const std::size_t logarithms = large.B * large.NH * large.T * sizeof(float);
  EXPECT_LE(bytes(large), cuda::attention_part_bytes + cuda::attention_part_extra_bytes + logarithms + 256);
  EXPECT_EQ(attention_workspace_bytes<float>(large), portable::attention_workspace_bytes(large));
  // One head alone exceeds what parts should have.
  EXPECT_GE(bytes({1, 16384, 64, 1}), std::size_t{16384} * 16384 * 2);
  // A prompt has fewer positions than were planned.
  for (const std::size_t heads : {12, 16, 32}) {
    for (const std::size_t planned : {1024, 4096, 8192}) {
      for (std::size_t positions = 1; positions < planned; positions += 61) {
        ASSERT_LE(bytes({1, positions, 64 * heads, heads}), bytes({1, planned, 64 * heads, heads}))
            << heads << " heads, " << positions << " of " << planned << " positions";
      }
    }
  }
  // Rows of many heads: more than the parts of the other.
  const AttentionShape many{std::size_t{1} << 14U, 64, 1024, 128};
  EXPECT_GE(bytes(many), portable::attention_workspace_bytes(many));
}

TEST_F(AttentionByCudnn, AWorkspaceThatIsTooSmallIsRefused) {
  Case<bf16> c({1, 107, 32, 2}, no_dropout);
  c.workspace.resize(portable::attention_workspace_bytes(c.shape));
  EXPECT_THROW(attention_forward<bf16>(c.shape, c.qkv.data(), c.outputs(), {}, c.workspace), std::runtime_error);
}

}  // namespace

}  // namespace shoal::kernels
