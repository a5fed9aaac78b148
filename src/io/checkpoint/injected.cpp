// SPDX-License-Identifier: Apache-2.0
#include "shoal/io/injected.hpp"

#include <array>
#include <atomic>

#include "io/files/files.hpp"

namespace shoal::io {

namespace {

std::atomic<bool> next_write_fails = false;

}  // namespace

void fail_next_write() { next_write_fails = true; }

bool write_is_to_fail() { return next_write_fails.load(std::memory_order_relaxed) && next_write_fails.exchange(false); }

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
