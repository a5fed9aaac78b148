// SPDX-License-Identifier: Apache-2.0
#include "shoal/io/injected.hpp"

#include <array>
#include <atomic>

#include "io/files/files.hpp"

namespace shoal::io {

namespace {

std::atomic<bool> next_write_fails = false, next_transfer_fails = false, next_block_flips = false;

/// Returns true once after it was set.
bool taken(std::atomic<bool>& flag) { return flag.load(std::memory_order_relaxed) && flag.exchange(false); }

}  // namespace

void fail_next_write() { next_write_fails = true; }

void fail_next_transfer() { next_transfer_fails = true; }
void flip_next_block() { next_block_flips = true; }

bool write_is_to_fail() { return taken(next_write_fails); }
bool transfer_is_to_fail() { return taken(next_transfer_fails); }
bool block_is_to_flip() { return taken(next_block_flips); }

void flip_byte(const std::filesystem::path& path) {
  File file(path, File::Mode::write);
  std::array<std::byte, 1> byte{};
  const std::uint64_t middle = file.size() / 2;
  file.read(middle, byte);
  byte[0] ^= std::byte{1};
  file.write(middle, byte);
  file.sync();
  file.close();
}

}  // namespace shoal::io
