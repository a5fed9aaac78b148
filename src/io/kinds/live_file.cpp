// SPDX-License-Identifier: Apache-2.0
#include "shoal/io/live_file.hpp"

#include <chrono>
#include <thread>
#include <utility>

#include "io/files/files.hpp"
#include "io/hdf5/seal.hpp"
#include "shoal/base/error.hpp"
#include "shoal/io/hdf5.hpp"

namespace shoal::io {

namespace fs = std::filesystem;

namespace {

using Clock = std::chrono::steady_clock;
using Stamp = std::pair<fs::file_time_type, std::uintmax_t>;  // when the file was changed last; its size

/// Older files are not being written, even if the clocks of two machines differ.
constexpr std::chrono::seconds recent{60};

Stamp stamp_of(const fs::path& file) {
  std::error_code ignored;  // a file that cannot be read has an error of its own
  return {fs::last_write_time(file, ignored), fs::file_size(file, ignored)};
}

/// A run has a file without a seal open; with the seal it has closed it.
bool may_be_written(const fs::path& file, const Stamp& stamp) {
  try {
    return is_hdf5(file) && fs::file_time_type::clock::now() - stamp.first < recent && !find_seal(file);
  } catch (const Error&) {
    return false;
  }
}

/// Waits until the file is another one than `before`. False if it stays the same.
bool changes(const fs::path& file, const Stamp& before, const LiveLimits& limits) {
  const auto end = Clock::now() + std::chrono::duration<double>(limits.unchanged_s);
  while (stamp_of(file) == before) {
    if (Clock::now() >= end) return false;
    if (limits.wait) {
      limits.wait();
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }
  return true;
}

}  // namespace

void read_live(const fs::path& file, const std::function<void()>& read, const LiveLimits& limits) {
  const auto end = Clock::now() + std::chrono::duration<double>(limits.longest_s);
  while (true) {
    const Stamp before = stamp_of(file);
    try {
      return read();
    } catch (const SystemError&) {
      throw;
    } catch (const Error& error) {
      if (!may_be_written(file, before)) throw;
      const auto with = [&](const char* remark) { return Error(error.code(), error.seen(), text(error.what(), remark)); };
      if (Clock::now() >= end) throw with("; a run goes on writing the file: try again");
      if (!changes(file, before, limits)) throw with("; the file does not change, so no run is writing it");
    }
  }
}

}  // namespace shoal::io
