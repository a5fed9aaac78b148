// SPDX-License-Identifier: Apache-2.0
// A matrix product by blocks that fit the caches (Goto, van de Geijn, "Anatomy of High-Performance Matrix Multiplication",
// ACM TOMS 34, 2008): strips of A's rows and of B's columns are packed in the order in which a kernel reads them, and the
// kernel multiplies a strip of A with one of B, a chunk of the sum at a time.
//
// An element of C is summed over chunks whose borders depend on k alone, and strips at the border are filled up with zeros:
// so its bits depend neither on where it stands nor on how the product is cut among threads.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "block_finisher.hpp"
#include "product.hpp"
#include "shoal/base/bump_allocator.hpp"
#include "shoal/base/types.hpp"
#include "tiling.hpp"

namespace shoal::kernels {

/// What is packed at a time: `count` rows of A or columns of B over `depth` elements of the sum.
/// Neighbours in memory are neighbours in the sum where `along` is set, and neighbouring rows or columns elsewhere.
template <typename T>
struct Piece {
  const T* data;
  std::size_t stride;
  std::size_t count, depth;
  bool along;
};

/// Kernel has
///   Type, of A and B; Packed, what they are packed as, and how many parts each element becomes; rows and columns of a block
///   of C, which are the widths of strips;
///   step, elements of the sum that are packed at a time; chunk, those of a longer sum that are multiplied at a time;
///   longest_chunk, which is not cut yet; block_rows, block_columns, left_bytes: how many strips, and bytes of A's, are used
///   together at most;
///   Scope, an object of which lives while products are computed;
///   pack_left(Piece, Packed* to) and pack_right(), which fill up to a whole strip and step;
///   multiply<bool over>(left, right, steps, float* sums, finisher): sums = or += left right. Before it writes, and best
///   while it multiplies, it has the finisher finish all() rows of the block before, which may stand in the same place.
template <class Kernel, typename R>
class BlockedProduct final : public Product {
 public:
  using T = typename Kernel::Type;
  using Packed = typename Kernel::Packed;

  explicit BlockedProduct(const ProductKey& key)
      : key_(key.transposed ? transpose_of(key) : key),
        rows_(parts(key_.m, Kernel::rows)),
        columns_(parts(key_.n, Kernel::columns)),
        chunk_(round_up(key.k <= Kernel::longest_chunk ? key.k : piece(key.k, Kernel::chunk), Kernel::step)),
        chunks_(parts(key.k, chunk_)),
        block_rows_(piece(rows_, most_rows())),
        kept_(one_block_of_rows()
                  ? columns_
                  : std::clamp<std::size_t>(right_bytes / (chunks_ * right_size() * sizeof(Packed)), 1, columns_)),
        block_columns_(piece(kept_, block_rows_ <= Kernel::block_rows ? Kernel::block_columns : Kernel::block_columns / 2)) {
  }

  std::size_t workspace_bytes() const override { return Buffers(*this, BumpAllocator()).bytes + line; }
  void prepare(int /*threads*/) override {}

  void operator()(const Operands& given, int /*thread*/) override {
    Operands operands = given;
    if (key_.transposed) std::swap(operands.a, operands.b);
    const typename Kernel::Scope scope;
    const Buffers buffers(*this, BumpAllocator(from_whole_line(operands.workspace)));
    for (std::size_t first = 0; first < columns_; first += kept_) {
      const Range kept = from(first, kept_, columns_);
      for (std::size_t row = 0; row < rows_; row += block_rows_) {
        const Range rows = from(row, block_rows_, rows_);
        pack_left(operands, buffers, rows);
        for (std::size_t column = kept.begin; column < kept.end; column += block_columns_) {
          const Range columns = from(column, block_columns_, kept.end);
          for (std::size_t chunk = 0; chunk < chunks_; ++chunk) {
            if (rows.begin == 0) pack_right(operands, buffers, kept, columns, chunk);
            compute(operands, buffers, rows, kept, columns, chunk);
          }
        }
      }
    }
    simd::wait_for_streams();
  }

 private:
  static constexpr std::size_t line = BumpAllocator::cache_line;
  /// Strips of B that are packed once for all rows: for longer products, A is packed more than once.
  static constexpr std::size_t right_bytes = std::size_t{4} << 20U;
  /// Where all of A's strips make one block, those of B are used once and need not be kept.
  static constexpr std::size_t left_bytes_at_once = std::size_t{8} << 20U;

  /// C' = B' A of C = A' B: again the left one is stored transposed, and the right one plain.
  static ProductKey transpose_of(ProductKey key) {
    std::swap(key.m, key.n);
    std::swap(key.a_stride, key.b_stride);
    return key;
  }

  // Elements of a strip over a chunk, and of a block of C.
  std::size_t left_size() const { return Kernel::rows * chunk_ * Kernel::parts; }
  std::size_t right_size() const { return Kernel::columns * chunk_ * Kernel::parts; }
  static constexpr std::size_t block_size = Kernel::rows * Kernel::columns;

  static Range from(std::size_t begin, std::size_t size, std::size_t end) { return {begin, std::min(end, begin + size)}; }
  /// The size of equal pieces of at most `most`.
  static std::size_t piece(std::size_t whole, std::size_t most) { return parts(whole, parts(whole, most)); }
  std::size_t depth_of(std::size_t chunk) const { return std::min(chunk_, key_.k - chunk * chunk_); }
  std::size_t most_rows() const {
    const std::size_t strip_bytes = chunks_ * left_size() * sizeof(Packed);
    if (rows_ <= 2 * Kernel::block_rows && rows_ * strip_bytes <= left_bytes_at_once) return rows_;
    return std::clamp<std::size_t>(Kernel::left_bytes / strip_bytes, 1, Kernel::block_rows);
  }
  bool one_block_of_rows() const { return block_rows_ >= rows_; }

  /// Where the workspace's parts begin: strips of A over all chunks, strips of B (of one block, where that is used once),
  /// and sums.
  struct Buffers {
    Packed *left, *right;
    float* sums;
    std::size_t bytes;

    Buffers(const BlockedProduct& p, BumpAllocator memory) {
      const std::size_t right_strips = p.one_block_of_rows() ? p.block_columns_ : p.chunks_ * p.kept_;
      left = memory.take<Packed>(p.chunks_ * p.block_rows_ * p.left_size());
      right = memory.take<Packed>(right_strips * p.right_size());
      sums = memory.take<float>(p.blocks_of_sums() * block_size);
      bytes = memory.used();
    }
  };
  static Span<std::byte> from_whole_line(Span<std::byte> workspace) {
    const auto begin = reinterpret_cast<std::uintptr_t>(workspace.data());
    return workspace.subspan(round_up(begin, line) - begin);
  }
  std::size_t blocks_of_sums() const { return chunks_ == 1 ? 1 : block_rows_ * block_columns_; }

  Packed* left_of(const Buffers& buffers, std::size_t chunk, std::size_t row) const {
    return buffers.left + (chunk * block_rows_ + row) * left_size();
  }
  Packed* right_of(const Buffers& buffers, Range kept, Range columns, std::size_t chunk, std::size_t column) const {
    return buffers.right +
           (one_block_of_rows() ? column - columns.begin : chunk * kept_ + column - kept.begin) * right_size();
  }

  /// Calls pack(strip, step) in the order in which memory holds them, which is what the processor fetches ahead.
  template <class Pack>
  static void in_order(bool along, Range strips, Range steps, const Pack& pack) {
    const Range outer = along ? strips : steps, inner = along ? steps : strips;
    for (std::size_t o = outer.begin; o < outer.end; ++o) {
      for (std::size_t i = inner.begin; i < inner.end; ++i) along ? pack(o, i) : pack(i, o);
    }
  }

  void pack_left(const Operands& o, const Buffers& buffers, Range rows) const {
    const bool along = key_.a == Transpose::no;
    in_order(along, rows, {0, parts(key_.k, Kernel::step)}, [&](std::size_t row, std::size_t step) {
      const std::size_t i = row * Kernel::rows, k = step * Kernel::step;
      Kernel::pack_left({static_cast<const T*>(o.a) + (along ? i * key_.a_stride + k : k * key_.a_stride + i), key_.a_stride,
                         std::min(Kernel::rows, key_.m - i), std::min(Kernel::step, key_.k - k), along},
                        left_of(buffers, k / chunk_, row - rows.begin) + k % chunk_ * Kernel::rows * Kernel::parts);
    });
  }

  void pack_right(const Operands& o, const Buffers& buffers, Range kept, Range columns, std::size_t chunk) const {
    const bool along = key_.b == Transpose::yes;
    const std::size_t first = chunk * chunk_;
    in_order(along, columns, {0, parts(depth_of(chunk), Kernel::step)}, [&](std::size_t column, std::size_t step) {
      const std::size_t j = column * Kernel::columns, k = first + step * Kernel::step;
      Kernel::pack_right(
          {static_cast<const T*>(o.b) + (along ? j * key_.b_stride + k : k * key_.b_stride + j), key_.b_stride,
           std::min(Kernel::columns, key_.n - j), std::min(Kernel::step, key_.k - k), along},
          right_of(buffers, kept, columns, chunk, column) + step * Kernel::step * Kernel::columns * Kernel::parts);
    });
  }

  void compute(const Operands& o, const Buffers& buffers, Range rows, Range kept, Range columns, std::size_t chunk) const {
    const std::size_t steps = parts(depth_of(chunk), Kernel::step);
    const bool last = chunk + 1 == chunks_;
    BlockFinisher<T, R, Kernel::columns> finisher;
    for (std::size_t column = columns.begin; column < columns.end; ++column) {
      const Packed* const right = right_of(buffers, kept, columns, chunk, column);
      for (std::size_t row = rows.begin; row < rows.end; ++row) {
        const Packed* const left = left_of(buffers, chunk, row - rows.begin);
        const std::size_t block = (column - columns.begin) * block_rows_ + row - rows.begin;
        float* const sums = buffers.sums + (chunks_ == 1 ? 0 : block * block_size);
        if (chunk == 0) {
          Kernel::template multiply<true>(left, right, steps, sums, finisher);
        } else {
          Kernel::template multiply<false>(left, right, steps, sums, finisher);
        }
        if (last) finisher.begin(sums, place(o, row * Kernel::rows, column * Kernel::columns));
      }
    }
    finisher.all();
  }

  Place<T, R> place(const Operands& o, std::size_t row, std::size_t column) const {
    const std::size_t at = key_.transposed ? column * key_.c_stride + row : row * key_.c_stride + column;
    return {static_cast<R*>(o.c) + at,
            key_.c_stride,
            std::min(Kernel::rows, key_.m - row),
            std::min(Kernel::columns, key_.n - column),
            key_.bias ? static_cast<const T*>(o.bias) + column : nullptr,
            o.added == nullptr ? nullptr : static_cast<const R*>(o.added) + at,
            key_.transposed};
  }

  ProductKey key_;  // of what is computed, which is C' where that is asked for
  // In strips: what there is, and what makes a block; and columns of B that are packed once for all rows.
  std::size_t rows_, columns_, chunk_, chunks_;
  std::size_t block_rows_, kept_, block_columns_;
};

}  // namespace shoal::kernels
