// SPDX-License-Identifier: Apache-2.0
#include "shoal/io/nvme_tier.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <random>

#include "scratch.hpp"
#include "shoal/base/error.hpp"
#include "shoal/device/memory.hpp"
#include "shoal/io/injected.hpp"

namespace shoal::test {
namespace of_nvme_tier_test {

using device::Tier;
using io::DiskAccess;
using io::NvmeTier;
using testing::HasSubstr;

constexpr std::size_t block = Tier::block_bytes / sizeof(float);

/// A tier with two buffers, of 3 blocks and a part of one, and of 10 elements; and aligned memory.
class Disk {
 public:
  explicit Disk(const std::filesystem::path& directory, DiskAccess access = DiskAccess::uring_registered,
                double block_mb = 1.0)
      : memory_([&](Memory& memory) { take(memory); }), tier_(memory_, {directory.string(), block_mb, 3}, access) {}

  NvmeTier& tier() { return tier_; }
  Span<float> large() const { return large_; }
  Span<float> small() const { return small_; }
  /// Memory for a transfer, the k-th of three.
  Span<float> window(std::size_t k, std::size_t elements) const {
    auto* const at = reinterpret_cast<float*>(round_up(reinterpret_cast<std::uintptr_t>(windows_.data()), Tier::alignment));
    return {at + k * 4 * block, elements};
  }

  void down(Span<const float> here, Span<float> there) {
    tier_.wait(tier_.down(std::as_bytes(here), std::as_writable_bytes(there)));
  }
  void up(Span<const float> there, Span<float> here) {
    tier_.wait(tier_.up(std::as_bytes(there), std::as_writable_bytes(here)));
  }

 private:
  void take(Memory& memory) {
    large_ = memory.take<float>(Kind::moments, 3 * block + 1000, "moments", Use::kernels, Where::nvme);
    small_ = memory.take<float>(Kind::master, 10, "master parameters", Use::kernels, Where::nvme);
    windows_ = memory.take<std::byte>(Kind::staging, 13 * Tier::block_bytes, "windows");
  }

  Span<float> large_, small_;
  Span<std::byte> windows_;
  device::DeviceMemory memory_;
  NvmeTier tier_;
};

void fill(Span<float> values, float first) {
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = first + static_cast<float>(i);
}

/// The tier's file, which has no name, as another process could open it.
int open_file_of_tier(const std::filesystem::path& directory) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    const std::string target = std::filesystem::read_symlink(entry.path(), error).string();
    if (target.starts_with(directory.string()) && target.ends_with("(deleted)")) return ::open(entry.path().c_str(), O_RDWR);
  }
  return -1;
}

std::string error_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(NvmeTier, KeepsWhatGoesDownByEveryWay) {
  for (const DiskAccess access : {DiskAccess::uring_registered, DiskAccess::uring, DiskAccess::threads}) {
    for (const double request : {1.0, 0.1}) {
      Scratch scratch;
      Disk disk(scratch.path(), access, request);
      SCOPED_TRACE(name_of(disk.tier().access()));
      const Span<float> whole = disk.window(0, disk.large().size()), back = disk.window(1, disk.large().size());
      fill(back, 5);
      disk.up(disk.large(), back);
      EXPECT_EQ(std::count(back.begin(), back.end(), 0.0F), static_cast<std::ptrdiff_t>(back.size())) << "never written";
      fill(whole, 1);
      disk.down(whole, disk.large());
      disk.up(disk.large(), back);
      EXPECT_TRUE(std::equal(back.begin(), back.end(), whole.begin()));
      fill(disk.window(2, block), -9);
      disk.down(disk.window(2, block), disk.large().subspan(block, block));
      disk.up(disk.large().subspan(block, 2 * block + 1000), back);
      EXPECT_EQ(back[0], -9);
      EXPECT_EQ(back[block - 1], -9 + static_cast<float>(block - 1));
      EXPECT_EQ(back[block], whole[2 * block]);
      EXPECT_EQ(back[2 * block + 999], whole[3 * block + 999]);
      disk.up(disk.small(), back);
      EXPECT_EQ(back[9], 0);
      EXPECT_EQ(disk.tier().traffic().down, round_up(disk.large().size_bytes(), 4096) + Tier::block_bytes);
    }
  }
}

TEST(NvmeTier, ReadsAndWritesAnyPart) {
  Scratch scratch;
  Disk disk(scratch.path());
  std::vector<float> expected(disk.large().size(), 0), part;
  std::minstd_rand random(7);
  for (int round = 0; round < 200; ++round) {
    const std::size_t begin = random() % expected.size(), size = 1 + random() % (expected.size() - begin);
    part.assign(size, 0);
    switch (random() % 3) {
      case 0:
        fill(part, static_cast<float>(round * 100));
        disk.tier().write(std::as_bytes(Span<const float>(part)), std::as_writable_bytes(disk.large().subspan(begin, size)));
        std::copy(part.begin(), part.end(), expected.begin() + static_cast<std::ptrdiff_t>(begin));
        break;
      case 1:
        disk.tier().read(std::as_bytes(disk.large().subspan(begin, size)), std::as_writable_bytes(Span<float>(part)));
        ASSERT_TRUE(std::equal(part.begin(), part.end(), expected.begin() + static_cast<std::ptrdiff_t>(begin))) << round;
        break;
      default: {
        const std::size_t first = begin / block * block, count = std::min(block, expected.size() - first);
        const Span<float> here = disk.window(0, count);
        fill(here, static_cast<float>(-round));
        std::copy(here.begin(), here.end(), expected.begin() + static_cast<std::ptrdiff_t>(first));
        disk.down(here, disk.large().subspan(first, count));
      }
    }
  }
}

TEST(NvmeTier, NamesABlockThatIsNotAsItWasWritten) {
  Scratch scratch;
  Disk disk(scratch.path());
  const Span<float> here = disk.window(0, disk.large().size());
  fill(here, 1);
  disk.down(here, disk.large());
  const int file = open_file_of_tier(scratch.path());
  ASSERT_GE(file, 0);
  // Buffers are in the order of their addresses, which of these two is unknown: its blocks are found by their content.
  std::byte byte{};
  const off_t at = static_cast<off_t>(Tier::block_bytes + 4096 + 77);
  ASSERT_EQ(::pread(file, &byte, 1, at), 1);
  byte ^= std::byte{4};
  ASSERT_EQ(::pwrite(file, &byte, 1, at), 1);
  ASSERT_EQ(::fsync(file), 0);
  EXPECT_EQ(error_of([&] { disk.up(disk.large().first(block), here); }), "");
  const std::string error = error_of([&] { disk.up(disk.large(), here); });
  EXPECT_THAT(error, HasSubstr("nvme.dir = " + scratch.path().string() + ": moments, bytes "));
  EXPECT_THAT(error, HasSubstr("the checksum differs from that of what was written"));
  ASSERT_EQ(::ftruncate(file, 8192), 0);
  EXPECT_THAT(error_of([&] { disk.up(disk.large(), here); }), HasSubstr("the file ends there"));
  ::close(file);
}

TEST(NvmeTier, DamageOnPurposeIsNoticed) {
  Scratch scratch;
  Disk disk(scratch.path());
  const Span<float> here = disk.window(0, disk.large().size());
  fill(here, 1);
  io::flip_next_block();
  disk.down(here, disk.large());
  EXPECT_THAT(error_of([&] { disk.up(disk.large(), here); }), HasSubstr("checksum differs"));
  io::fail_next_transfer();
  EXPECT_THAT(error_of([&] { disk.up(disk.small(), here); }), HasSubstr("Input/output error"));
}

TEST(NvmeTier, LeavesNothingBehind) {
  Scratch scratch;
  {
    Disk disk(scratch.path());
    EXPECT_TRUE(std::filesystem::is_empty(scratch.path())) << "the file has no name";
    const int file = open_file_of_tier(scratch.path());
    struct stat status {};
    ASSERT_EQ(::fstat(file, &status), 0);
    EXPECT_EQ(status.st_mode & 0777U, 0600U);
    EXPECT_GE(static_cast<std::size_t>(status.st_blocks) * 512, disk.large().size_bytes()) << "its space is reserved";
    ::close(file);
  }
  EXPECT_EQ(open_file_of_tier(scratch.path()), -1);
}

TEST(NvmeTier, RefusesADirectoryThatCannotBeUsed) {
  Scratch scratch;
  EXPECT_THAT(error_of([&] { Disk disk(scratch.path() / "none"); }),
              HasSubstr("no file can be created there: No such file"));
  Ledger planned;
  planned.at(Where::nvme, Kind::moments) = std::size_t{40} << 40U;
  const Memory memory(planned);
  const std::string error = error_of([&] { const NvmeTier tier(memory, {scratch.path().string()}); });
  EXPECT_THAT(error, HasSubstr("needs 43980465 MB, the disk has "));
}

TEST(NvmeTier, WarnsOfMemory) {
  if (!std::filesystem::is_directory("/dev/shm")) return;
  Disk disk("/dev/shm");
  EXPECT_THAT(disk.tier().warnings(), testing::Contains(HasSubstr("/dev/shm is in memory (tmpfs)")));
}

}  // namespace of_nvme_tier_test
}  // namespace shoal::test
