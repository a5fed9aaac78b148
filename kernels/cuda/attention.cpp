// SPDX-License-Identifier: Apache-2.0
// Attention by cuDNN's graphs: bf16 and fp16 without dropout. All else is computed by the portable kernels, as is what cuDNN
// cannot do on this GPU, which is said in one line. Both save the same logarithms, so forward and backward may differ in
// that.
#include "kernels/portable/attention.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <type_traits>
#include <utility>

#include "kernels/common/instances.hpp"
#include "kernels/cuda/attention_graph.hpp"
#include "kernels/cuda/attention_parts.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/output.hpp"
#include "shoal/base/pump.hpp"
#include "shoal/device/taken.hpp"
#include "shoal/kernels/bytes.hpp"

namespace shoal::kernels {

namespace {

using cuda::AttentionGraph;
using cuda::AttentionKey;
using cuda::AttentionPart;
using cuda::AttentionTensors;
using Pass = AttentionKey::Pass;

constexpr std::size_t workspace_alignment = 256;

/// Whether cuDNN may be asked. Its kernels are for long rows, and for head sizes that are whole vectors of 16 bytes.
template <typename T>
bool suits(const AttentionShape& s) {
  const std::size_t head_size = s.C / s.NH;
  return !std::is_same_v<T, float> && s.B > 0 && s.T >= 64 && head_size % 8 == 0 && head_size <= 128;
}

/// Tensors' addresses are multiples of 16 bytes; graphs take no others.
template <typename... Addresses>
bool aligned(const Addresses*... addresses) {
  return (reinterpret_cast<std::uintptr_t>(addresses) | ...) % 16 == 0;
}

struct KeptGraph {
  std::unique_ptr<AttentionGraph> graph;  // null: the library cannot
  std::string line;                       // why
};

/// The graph for this key, made when it is first asked for.
const KeptGraph& kept_graph(const AttentionKey& key, std::size_t workspace_bytes) {
  static std::map<AttentionKey, KeptGraph> graphs;
  const auto at = graphs.find(key);
  if (at != graphs.end()) return at->second;
  std::string why;
  KeptGraph kept{cuda::make_attention_graph(key, why), {}};
  if (kept.graph != nullptr && kept.graph->workspace_bytes() > workspace_bytes) {
    why = text("it needs ", kept.graph->workspace_bytes(), " bytes of workspace; ", workspace_bytes, " are planned");
    kept.graph.reset();
  }
  if (kept.graph == nullptr) {
    kept.line = text("attention's ", key.pass == Pass::forward ? "forward" : "backward", " of ", key.positions,
                     " positions and head size ", key.head_size, " is computed by portable kernels, not by cuDNN: ", why);
  }
  return graphs.emplace(key, std::move(kept)).first->second;
}

/// Lines that prepare_attention() has returned, or that were printed.
std::set<std::string>& told() {
  static std::set<std::string> lines;
  return lines;
}

/// The parts of a problem. Forward needs hardly any workspace, so it is one part.
class Parts {
 public:
  Parts(Pass pass, AttentionKey::Element element, const AttentionShape& shape)
      : shape_(shape),
        part_(pass == Pass::forward ? AttentionPart{shape.B, shape.NH} : cuda::attention_part(shape)),
        bytes_(cuda::attention_part_workspace_bytes(shape)),
        copy_bytes_(pass == Pass::forward ? 0 : cuda::attention_copy_bytes(shape)) {
    key_ = {.pass = pass, .element = element, .positions = shape.T, .head_size = shape.C / shape.NH, .channels = shape.C};
  }

  /// Why some part has no graph; empty if all have one. They are all made before the first one runs.
  std::string problem() {
    std::string line;
    each([&](std::size_t, std::size_t, const KeptGraph& kept) {
      if (line.empty()) line = kept.line;
    });
    return line;
  }
  /// The same, and prints the line, once, if nobody was told.
  bool available() {
    const std::string line = problem();
    if (!line.empty() && told().insert(line).second) output::complain("shoal: warning: " + line + "\n");
    return line.empty();
  }
  /// run(tensors of the part that begins with this sequence and this head)
  template <class TensorsAt>
  void run(Span<std::byte> workspace, const TensorsAt& tensors_at) {
    const auto address = reinterpret_cast<std::uintptr_t>(workspace.data());
    const std::size_t skipped = round_up(address, workspace_alignment) - address;
    const std::size_t needed = skipped + bytes_ + copy_bytes_;
    require(workspace.size() >= needed, "attention: ", workspace.size(), " bytes of workspace; ", needed, " are needed");
    std::byte* const start = workspace.data() + skipped;
    each([&](std::size_t b, std::size_t h, const KeptGraph& kept) {
      AttentionTensors tensors = tensors_at(b, h);
      if (!aligned(tensors.logsumexp)) {  // of a later part of backward, which only reads them
        auto* const copy = reinterpret_cast<float*>(start + bytes_);
        copy_bytes(key_.sequences * key_.heads * key_.positions * sizeof(float), tensors.logsumexp, copy);
        tensors.logsumexp = copy;
      }
      kept.graph->run(tensors, start);
    });
    pump();
  }

 private:
  template <class Body>
  void each(const Body& body) {
    for (std::size_t b = 0; b < shape_.B; b += part_.sequences) {
      for (std::size_t h = 0; h < shape_.NH; h += part_.heads) {
        key_.sequences = std::min(part_.sequences, shape_.B - b);
        key_.heads = std::min(part_.heads, shape_.NH - h);
        body(b, h, kept_graph(key_, bytes_));
      }
    }
  }

  AttentionShape shape_;
  AttentionPart part_;
  AttentionKey key_;
  std::size_t bytes_, copy_bytes_;
};

template <typename T>
Parts parts_of(Pass pass, const AttentionShape& shape) {
  return {pass, std::is_same_v<T, bf16> ? AttentionKey::Element::bf16 : AttentionKey::Element::f16, shape};
}

/// Elements before the part that begins with sequence b and head h: in qkv, in out, in logsumexp.
struct Offsets {
  std::size_t qkv, out, rows;
  Offsets(const AttentionShape& s, std::size_t b, std::size_t h)
      : qkv(b * s.T * 3 * s.C + h * (s.C / s.NH)), out(b * s.T * s.C + h * (s.C / s.NH)), rows((b * s.NH + h) * s.T) {}
};

template <typename T>
bool forward_by_library(const AttentionShape& s, const T* qkv, const AttentionOutputs<T>& out, Span<std::byte> workspace) {
  if (!suits<T>(s) || !aligned(qkv, out.out, out.logsumexp)) return false;
  Parts parts = parts_of<T>(Pass::forward, s);
  if (!parts.available()) return false;
  parts.run(workspace, [&](std::size_t b, std::size_t h) {
    const Offsets at(s, b, h);
    const T* const q = qkv + at.qkv;
    AttentionTensors t;
    t.q = q, t.k = q + s.C, t.v = q + 2 * s.C;
    t.out = out.out + at.out, t.logsumexp = out.logsumexp + at.rows;
    return t;
  });
  return true;
}

template <typename T>
bool backward_by_library(const AttentionShape& s, const AttentionBackwardInputs<T>& in, T* dqkv, Span<std::byte> workspace) {
  if (!suits<T>(s) || !aligned(in.qkv, in.out, in.logsumexp, in.dout, dqkv)) return false;
  Parts parts = parts_of<T>(Pass::backward, s);
  if (!parts.available()) return false;
  parts.run(workspace, [&](std::size_t b, std::size_t h) {
    const Offsets at(s, b, h);
    const T* const q = in.qkv + at.qkv;
    T* const dq = dqkv + at.qkv;
    AttentionTensors t;
    t.q = q, t.k = q + s.C, t.v = q + 2 * s.C;
    // Backward only reads these two.
    t.out = const_cast<T*>(in.out + at.out), t.logsumexp = const_cast<float*>(in.logsumexp + at.rows);
    t.dout = in.dout + at.out;
    t.dq = dq, t.dk = dq + s.C, t.dv = dq + 2 * s.C;
    return t;
  });
  return true;
}

}  // namespace

template <typename T>
std::size_t attention_workspace_bytes(const AttentionShape& shape) {
  const std::size_t portable = portable::attention_workspace_bytes(shape);
  if (!suits<T>(shape)) return portable;
  return std::max(portable, cuda::attention_planned_bytes(shape) + workspace_alignment);
}

template <typename T>
std::vector<std::string> prepare_attention(const AttentionShape& shape, bool backward) {
  portable::check_head_size(shape);
  std::vector<std::string> lines;
  if (!suits<T>(shape)) return lines;
  device::measure_taken("cuDNN", [&] {
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      if (pass == Pass::backward && !backward) continue;
      const std::string line = parts_of<T>(pass, shape).problem();
      if (line.empty()) continue;
      told().insert(line);
      lines.push_back(line);
    }
  });
  return lines;
}

template <typename T>
void attention_forward(const AttentionShape& shape, const T* qkv, const AttentionOutputs<T>& out, const Dropout& dropout,
                       Span<std::byte> workspace) {
  if (!dropout.active() && forward_by_library(shape, qkv, out, workspace)) return;
  portable::attention_forward(shape, qkv, out, dropout);
}

template <typename T>
void attention_backward(const AttentionShape& shape, const AttentionBackwardInputs<T>& in, T* dqkv, const Dropout& dropout,
                        Span<std::byte> workspace) {
  if (!dropout.active() && backward_by_library(shape, in, dqkv, workspace)) return;
  portable::attention_backward(shape, in, dqkv, dropout, workspace);
}

SHOAL_FOR_TYPES(attention_workspace_bytes);
SHOAL_FOR_TYPES(prepare_attention);
SHOAL_FOR_TYPES(attention_forward);
SHOAL_FOR_TYPES(attention_backward);

}  // namespace shoal::kernels
