// SPDX-License-Identifier: Apache-2.0
// A matrix product by blocks that fit the caches (Goto, van de Geijn, "Anatomy of High-Performance Matrix Multiplication",
// ACM TOMS 34, 2008), in the terms of BLIS (Van Zee, van de Geijn, "BLIS: A Framework for Rapidly Instantiating BLAS
// Functionality", ACM TOMS 41, 2015):
//   MR x NR      the tile of C that the micro-kernel computes
//   KC           elements of the sum over k that the micro-kernel multiplies at a time
//   micro-panel  MR rows of A or NR columns of B over KC elements of the sum, packed in the order in which the micro-kernel
//                reads them; padded with zeros at the edges of the matrix
//   MC           rows of A whose micro-panels are packed together
//   NC           columns of B whose micro-panels are packed once and kept for all rows of A
//   NB           columns, of these NC, whose tiles of C are computed together
// The loops, from the outermost to the innermost:
//   for each NC columns of C
//     for each MC rows: pack A, over the whole sum
//       for each NB columns
//         for each KC elements of the sum: pack B, unless an earlier block of rows did
//           for each micro-panel of B, and each micro-panel of A: call the micro-kernel
// In contrast to BLIS the loop over KC is inside those over NC and MC: the sums of MC x NB elements of C stay in a buffer,
// in float, until they are complete. So each element of C is written (and rounded) once, by the epilogue. If the sum is
// too long for packing A over the whole of it, A is packed for each KC, as B is, and the buffer holds the sums of all of C.
//
// KC depends on k alone. So the bits of an element of C depend neither on its position in C nor on how the product is
// divided among threads.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "kernels/cpu/product/epilogue.hpp"
#include "kernels/cpu/product/product.hpp"
#include "kernels/cpu/product/tiling.hpp"
#include "shoal/base/bump_allocator.hpp"
#include "shoal/base/types.hpp"

namespace shoal::kernels {

/// The input of one packing call: `count` rows of A, or columns of B, over `depth` elements of the sum. If `k_contiguous`,
/// neighbours in memory are neighbours in the sum; otherwise they are neighbouring rows of A or columns of B. A line of such
/// neighbours starts `stride` elements after the one before.
template <typename T>
struct PackSource {
  const T* data;
  std::size_t stride;
  std::size_t count, depth;
  bool k_contiguous;
};

/// What a micro-kernel multiplies: `depth` elements of the sum, which are `steps` steps, of the first `rows` rows of a tile.
struct Extent {
  std::size_t steps, depth, rows;
  std::size_t a_stride;  ///< elements between the rows of A, if these are not packed; else 0
};

/// The Scope of a micro-kernel that has nothing to set up.
struct NoScope {
  NoScope() {}  // NOLINT(modernize-use-equals-default): an object without it would be an unused variable
};

/// The requirements of BlockedProduct on its micro-kernel.
template <class K>
concept MicroKernel = requires(const PackSource<typename K::Type>& source, typename K::Packed* to,
                               const typename K::Packed* panel, const Extent& extent, float* sums,
                               Epilogue<typename K::Type, float, K::columns>& epilogue) {
  // MR and NR; elements of the sum that are packed at a time; packed elements for each element of A or B.
  { K::rows } -> std::convertible_to<std::size_t>;
  { K::columns } -> std::convertible_to<std::size_t>;
  { K::step } -> std::convertible_to<std::size_t>;
  { K::parts } -> std::convertible_to<std::size_t>;
  // The largest KC, and the longest sum that is not cut.
  { K::largest_kc } -> std::convertible_to<std::size_t>;
  { K::longest_uncut } -> std::convertible_to<std::size_t>;
  // The largest MC and NB in micro-panels, and the bytes of packed A that MC should not exceed.
  { K::largest_mc } -> std::convertible_to<std::size_t>;
  { K::largest_nb } -> std::convertible_to<std::size_t>;
  { K::a_bytes } -> std::convertible_to<std::size_t>;
  // An object that lives as long as the micro-kernel is used, for example to set up registers.
  typename K::Scope;
  // Pack one step of a micro-panel, and fill what is missing with zeros.
  K::pack_a(source, to);
  K::pack_b(source, to);
  // True if it reads the rows of such an A, with a sum of this length, in place: then A is not packed. True if what is added
  // to C shall be prefetched before the micro-kernel is called.
  { K::reads_rows(Transpose::no, std::size_t{}) } -> std::convertible_to<bool>;
  { K::prefetches } -> std::convertible_to<bool>;
  // sums = or += a b over the extent. Before it stores the sums, and best between its steps, it must have had the
  // epilogue write all rows of the tile before: that tile's sums may be in the same memory.
  K::template multiply<Write::over>(panel, panel, extent, sums, epilogue);
  K::template multiply<Write::add>(panel, panel, extent, sums, epilogue);
};

template <MicroKernel Kernel, typename R>
class BlockedProduct final : public Product {
 public:
  using T = typename Kernel::Type;
  using Packed = typename Kernel::Packed;

  explicit BlockedProduct(const ProductKey& key)
      : key_(key.transposed ? transpose_of(key) : key),
        a_in_place_(Kernel::reads_rows(key_.a, key.k)),
        a_panels_(parts(key_.m, Kernel::rows)),
        b_panels_(parts(key_.n, Kernel::columns)),
        kc_(round_up(key.k <= Kernel::longest_uncut ? key.k : even_part(key.k, Kernel::largest_kc), Kernel::step)),
        chunks_(parts(key.k, kc_)),
        sums_all_(!a_in_place_ && key.k > longest_packed),
        mc_(sums_all_ ? a_panels_ : even_part(a_panels_, largest_mc())),
        nc_(one_block_of_rows()
                ? b_panels_
                : std::clamp<std::size_t>(b_bytes / (chunks_ * b_panel_size() * sizeof(Packed)), 1, b_panels_)),
        nb_(sums_all_ ? nc_ : even_part(nc_, mc_ <= Kernel::largest_mc ? Kernel::largest_nb : Kernel::largest_nb / 2)) {}

  std::size_t workspace_bytes() const override { return Buffers(*this, BumpAllocator()).bytes + line; }
  void prepare(int /*threads*/) override {}

  void operator()(const Operands& given, int /*thread*/) override {
    Operands operands = given;
    if (key_.transposed) std::swap(operands.a, operands.b);
    const typename Kernel::Scope scope;
    const Buffers buffers(*this, BumpAllocator(from_whole_line(operands.workspace)));
    for (std::size_t first = 0; first < b_panels_; first += nc_) {
      const Range kept = from(first, nc_, b_panels_);
      for (std::size_t row = 0; row < a_panels_; row += mc_) {
        const Range rows = from(row, mc_, a_panels_);
        if (!a_in_place_ && !sums_all_) pack_a(operands, buffers, rows, {0, key_.k});
        for (std::size_t column = kept.begin; column < kept.end; column += nb_) {
          const Range columns = from(column, nb_, kept.end);
          for (std::size_t chunk = 0; chunk < chunks_; ++chunk) {
            if (sums_all_) pack_a(operands, buffers, rows, from(chunk * kc_, kc_, key_.k));
            if (rows.begin == 0) pack_b(operands, buffers, kept, columns, chunk);
            compute(operands, buffers, rows, kept, columns, chunk);
          }
        }
      }
    }
    simd::wait_for_streams();
  }

 private:
  static constexpr std::size_t line = BumpAllocator::cache_line;
  /// Bytes of packed B that NC should not exceed. If the whole of B is larger, A is packed more than once.
  static constexpr std::size_t b_bytes = std::size_t{4} << 20U;
  /// If all of A is packed at once, in at most this many bytes, each part of B is used once and need not be kept.
  static constexpr std::size_t a_bytes_at_once = std::size_t{8} << 20U;

  /// The product C' = B' A for C = A' B. Again its first factor is stored transposed and its second one is not.
  static ProductKey transpose_of(ProductKey key) {
    std::swap(key.m, key.n);
    std::swap(key.a_stride, key.b_stride);
    return key;
  }

  // Elements of a packed micro-panel, and sums of a tile.
  std::size_t a_panel_size() const { return Kernel::rows * kc_ * Kernel::parts; }
  std::size_t b_panel_size() const { return Kernel::columns * kc_ * Kernel::parts; }
  static constexpr std::size_t tile_size = Kernel::rows * Kernel::columns;

  static Range from(std::size_t begin, std::size_t size, std::size_t end) { return {begin, std::min(end, begin + size)}; }
  /// The size of equal parts of at most `most`.
  static std::size_t even_part(std::size_t whole, std::size_t most) { return parts(whole, parts(whole, most)); }
  std::size_t depth_of(std::size_t chunk) const { return std::min(kc_, key_.k - chunk * kc_); }
  std::size_t largest_mc() const {
    // Of MR rows, over the whole sum if they are packed.
    const std::size_t bytes = (a_in_place_ ? 1 : chunks_) * a_panel_size() * sizeof(Packed);
    if (a_panels_ <= 2 * Kernel::largest_mc && a_panels_ * bytes <= a_bytes_at_once) return a_panels_;
    return std::clamp<std::size_t>(Kernel::a_bytes / bytes, 1, Kernel::largest_mc);
  }
  bool one_block_of_rows() const { return mc_ >= a_panels_; }
  std::size_t packed_chunks() const { return sums_all_ ? 1 : chunks_; }

  /// The parts of the workspace: micro-panels of MC rows of A over the whole sum, or over one KC; of NC columns of B over
  /// the whole sum, or of NB columns over one KC if each is used once; and sums.
  struct Buffers {
    Packed *a, *b;
    float* sums;
    std::size_t bytes;

    Buffers(const BlockedProduct& p, BumpAllocator memory) {
      const std::size_t b_panels = p.one_block_of_rows() ? p.nb_ : p.chunks_ * p.nc_;
      a = memory.take<Packed>(p.a_in_place_ ? 0 : p.packed_chunks() * p.mc_ * p.a_panel_size());
      b = memory.take<Packed>(b_panels * p.b_panel_size());
      sums = memory.take<float>(p.tiles_of_sums() * tile_size);
      bytes = memory.used();
    }
  };
  static Span<std::byte> from_whole_line(Span<std::byte> workspace) {
    const auto begin = reinterpret_cast<std::uintptr_t>(workspace.data());
    return workspace.subspan(round_up(begin, line) - begin);
  }
  std::size_t tiles_of_sums() const { return chunks_ == 1 ? 1 : mc_ * nb_; }

  Packed* a_panel(const Buffers& buffers, std::size_t chunk, std::size_t row) const {
    return buffers.a + (chunk % packed_chunks() * mc_ + row) * a_panel_size();
  }
  Packed* b_panel(const Buffers& buffers, Range kept, Range columns, std::size_t chunk, std::size_t column) const {
    return buffers.b + (one_block_of_rows() ? column - columns.begin : chunk * nc_ + column - kept.begin) * b_panel_size();
  }

  /// Calls pack(panel, step) in the order in which memory holds what is packed, so that the processor prefetches it.
  template <class Pack>
  static void in_memory_order(bool k_contiguous, Range panels, Range steps, const Pack& pack) {
    const Range outer = k_contiguous ? panels : steps, inner = k_contiguous ? steps : panels;
    for (std::size_t o = outer.begin; o < outer.end; ++o) {
      for (std::size_t i = inner.begin; i < inner.end; ++i) k_contiguous ? pack(o, i) : pack(i, o);
    }
  }

  /// `sum`: elements of the sum, whole KC or up to its end.
  __attribute__((noinline)) void pack_a(const Operands& o, const Buffers& buffers, Range rows, Range sum) const {
    const bool k_contiguous = key_.a == Transpose::no;
    const Range steps{sum.begin / Kernel::step, parts(sum.end, Kernel::step)};
    in_memory_order(k_contiguous, rows, steps, [&](std::size_t row, std::size_t step) {
      const std::size_t i = row * Kernel::rows, k = step * Kernel::step;
      Kernel::pack_a({.data = static_cast<const T*>(o.a) + (k_contiguous ? i * key_.a_stride + k : k * key_.a_stride + i),
                      .stride = key_.a_stride,
                      .count = std::min(Kernel::rows, key_.m - i),
                      .depth = std::min(Kernel::step, key_.k - k),
                      .k_contiguous = k_contiguous},
                     a_panel(buffers, k / kc_, row - rows.begin) + k % kc_ * Kernel::rows * Kernel::parts);
    });
  }

  void pack_b(const Operands& o, const Buffers& buffers, Range kept, Range columns, std::size_t chunk) const {
    const bool k_contiguous = key_.b == Transpose::yes;
    const std::size_t first = chunk * kc_;
    in_memory_order(
        k_contiguous, columns, {0, parts(depth_of(chunk), Kernel::step)}, [&](std::size_t column, std::size_t step) {
          const std::size_t j = column * Kernel::columns, k = first + step * Kernel::step;
          Kernel::pack_b(
              {.data = static_cast<const T*>(o.b) + (k_contiguous ? j * key_.b_stride + k : k * key_.b_stride + j),
               .stride = key_.b_stride,
               .count = std::min(Kernel::columns, key_.n - j),
               .depth = std::min(Kernel::step, key_.k - k),
               .k_contiguous = k_contiguous},
              b_panel(buffers, kept, columns, chunk, column) + step * Kernel::step * Kernel::columns * Kernel::parts);
        });
  }

  void compute(const Operands& o, const Buffers& buffers, Range rows, Range kept, Range columns, std::size_t chunk) const {
    const std::size_t depth = depth_of(chunk);
    const bool last = chunk + 1 == chunks_;
    Epilogue<T, R, Kernel::columns> epilogue;
    for (std::size_t column = columns.begin; column < columns.end; ++column) {
      const Packed* const b = b_panel(buffers, kept, columns, chunk, column);
      for (std::size_t row = rows.begin; row < rows.end; ++row) {
        const Packed* const a = left(o, buffers, rows, chunk, row);
        const Extent extent{.steps = parts(depth, Kernel::step),
                            .depth = depth,
                            .rows = std::min(Kernel::rows, key_.m - row * Kernel::rows),
                            .a_stride = a_in_place_ ? key_.a_stride : 0};
        const OutputTile<T, R> output = output_tile(o, row * Kernel::rows, column * Kernel::columns);
        if (last && Kernel::prefetches) prefetch_added(output);
        const std::size_t tile = (column - columns.begin) * mc_ + row - rows.begin;
        float* const sums = buffers.sums + (chunks_ == 1 ? 0 : tile * tile_size);
        if (chunk == 0) {
          Kernel::template multiply<Write::over>(a, b, extent, sums, epilogue);
        } else {
          Kernel::template multiply<Write::add>(a, b, extent, sums, epilogue);
        }
        if (last) epilogue.begin(sums, output);
      }
    }
    epilogue.write_rest();
  }

  const Packed* left(const Operands& o, const Buffers& buffers, Range rows, std::size_t chunk, std::size_t row) const {
    if constexpr (std::is_same_v<T, Packed>) {
      if (a_in_place_) return static_cast<const T*>(o.a) + row * Kernel::rows * key_.a_stride + chunk * kc_;
    }
    return a_panel(buffers, chunk, row - rows.begin);
  }

  OutputTile<T, R> output_tile(const Operands& o, std::size_t row, std::size_t column) const {
    const std::size_t at = key_.transposed ? column * key_.c_stride + row : row * key_.c_stride + column;
    return {.c = static_cast<R*>(o.c) + at,
            .stride = key_.c_stride,
            .rows = std::min(Kernel::rows, key_.m - row),
            .columns = std::min(Kernel::columns, key_.n - column),
            .bias = key_.bias ? static_cast<const T*>(o.bias) + column : nullptr,
            .added = o.added == nullptr ? nullptr : static_cast<const R*>(o.added) + at,
            .transposed = key_.transposed};
  }

  ProductKey key_;   // of the product that is computed: that of C' if it was asked for
  bool a_in_place_;  // A is not packed
  // Micro-panels of A and of B (over one KC); KC, and how many KC the sum has.
  std::size_t a_panels_, b_panels_, kc_, chunks_;
  bool sums_all_;             // A is packed for one KC at a time
  std::size_t mc_, nc_, nb_;  // in micro-panels
};

}  // namespace shoal::kernels
