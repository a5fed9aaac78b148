// SPDX-License-Identifier: Apache-2.0
// What bounds the memory of a rank, read from directories that stand for /proc and the mounted control groups.
#include "shoal/plan/node_memory.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace shoal::plan {
namespace of_node_memory_test {

constexpr std::size_t mebibyte = std::size_t{1} << 20U;

class NodeMemory : public testing::Test {
 protected:
  NodeMemory() : root_(std::filesystem::temp_directory_path() / ("node-memory-test-" + std::to_string(getpid()))) {}
  ~NodeMemory() override { std::filesystem::remove_all(root_); }

  void write(const std::string& file, const std::string& words) const {
    std::filesystem::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << words << '\n';
  }

  /// The group of this process, and how its hierarchy is mounted at /groups.
  void version_1(const std::string& group, const std::string& top = "/") const {
    write("proc/self/cgroup", "5:cpu,cpuacct:/other\n4:memory:" + group + "\n0::/");
    write("proc/self/mountinfo",
          "31 23 0:28 / /groups rw - tmpfs tmpfs rw\n32 31 0:29 / /groups/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
          "35 31 0:32 " +
              top + " /groups rw,relatime shared:9 - cgroup cgroup rw,memory");
  }
  void version_2(const std::string& group, const std::string& point = "/groups") const {
    write("proc/self/cgroup", "0::" + group);
    write("proc/self/mountinfo", "41 31 0:38 / " + point + " rw,relatime shared:2 master:1 - cgroup2 cgroup2 rw");
  }

  /// Expects this limit, of this file.
  void expect(std::size_t bytes, const std::string& file) const {
    const MemoryShare share = share_of_groups(1, root_);
    EXPECT_EQ(share.bytes, bytes);
    EXPECT_EQ(share.bound, (root_ / file).string());
    EXPECT_EQ(share_of_groups(4, root_).bytes, bytes / 4) << "the ranks share it";
  }
  void expect_none() const {
    EXPECT_EQ(share_of_groups(1, root_).bytes, share_of_node(1).bytes);
    EXPECT_EQ(share_of_groups(1, root_).bound, "the node's memory");
  }

  std::filesystem::path root_;
};

TEST_F(NodeMemory, IsThatOfTheNodeWithoutGroups) {
  EXPECT_EQ(share_of_node(4).bytes, share_of_node(1).bytes / 4);
  expect_none();
  version_2("/job");
  write("groups/job/memory.max", "max");
  write("groups/job/memory.high", "max");
  expect_none();
  version_1("/job");
  write("groups/job/memory.limit_in_bytes", "9223372036854771712");
  expect_none();
}

TEST_F(NodeMemory, IsTheLeastOfTheGroupAndThoseAroundItInVersion2) {
  version_2("/slurm/job_7/step_0");
  write("groups/slurm/job_7/step_0/memory.max", std::to_string(300 * mebibyte));
  expect(300 * mebibyte, "groups/slurm/job_7/step_0/memory.max");
  write("groups/slurm/job_7/memory.max", std::to_string(200 * mebibyte));
  expect(200 * mebibyte, "groups/slurm/job_7/memory.max");
  write("groups/memory.max", std::to_string(100 * mebibyte));
  expect(100 * mebibyte, "groups/memory.max");
  write("groups/slurm/memory.high", std::to_string(50 * mebibyte));
  expect(50 * mebibyte, "groups/slurm/memory.high");
}

TEST_F(NodeMemory, IsTheLeastOfTheGroupAndThoseAroundItInVersion1) {
  version_1("/slurm/job_7");
  write("groups/other/memory.limit_in_bytes", "1");
  write("groups/slurm/job_7/memory.limit_in_bytes", std::to_string(300 * mebibyte));
  expect(300 * mebibyte, "groups/slurm/job_7/memory.limit_in_bytes");
  write("groups/slurm/memory.limit_in_bytes", std::to_string(200 * mebibyte));
  expect(200 * mebibyte, "groups/slurm/memory.limit_in_bytes");
  write("groups/slurm/memory.use_hierarchy", "0");
  expect(300 * mebibyte, "groups/slurm/job_7/memory.limit_in_bytes");
}

TEST_F(NodeMemory, OfAContainerThatSeesItsOwnGroupAlone) {
  version_1("/docker/4711", "/docker/4711");
  write("groups/memory.limit_in_bytes", std::to_string(200 * mebibyte));
  expect(200 * mebibyte, "groups/memory.limit_in_bytes");
  version_1("/docker/4711", "/docker/47");
  expect_none();
  version_2("/");
  write("groups/memory.max", std::to_string(100 * mebibyte));
  expect(100 * mebibyte, "groups/memory.max");
}

TEST_F(NodeMemory, OfAMountPointWithABlank) {
  version_2("/job", "/my\\040groups");
  write("my groups/job/memory.max", std::to_string(200 * mebibyte));
  expect(200 * mebibyte, "my groups/job/memory.max");
}

TEST(LimitBytes, AreThoseOfTheOption) {
  EXPECT_EQ(limit_bytes(0.5), std::size_t{1} << 29U);
  EXPECT_EQ(limit_bytes(1e300), std::size_t{1} << 62U) << "as good as no limit";
}

TEST(Described, NamesTheLimitAndWhoSharesIt) {
  EXPECT_EQ(described({100 * mebibyte, "/groups/job/memory.max"}, 2), "/groups/job/memory.max, 200 MiB for 2 ranks");
}

}  // namespace of_node_memory_test
}  // namespace shoal::plan
