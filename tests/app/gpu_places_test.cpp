// SPDX-License-Identifier: Apache-2.0
// What is said of GPUs that differ, and of ranks whose cores are far from their GPU. The kernel's files are imitated.
#include "app/setup/gpu_places.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

namespace shoal::app {
namespace of_gpu_places_test {

namespace fs = std::filesystem;
using device::Unit;

Unit gpu(const std::string& name, int processors) {
  Unit unit;
  std::copy(name.begin(), name.end(), unit.name.begin());
  unit.processors = processors;
  return unit;
}

TEST(DifferenceOfUnits, IsThatOfNamesOrMultiprocessors) {
  const Unit h100 = gpu("NVIDIA H100", 132), h200 = gpu("NVIDIA H200", 132), a_part = gpu("NVIDIA H100", 114);
  const std::vector<std::string> ranks = {"rank 0 (a)", "rank 1 (a)", "rank 2 (b)"};
  EXPECT_EQ(difference_of_units(ranks, {h100, h100, h100}), "");
  EXPECT_EQ(difference_of_units({"rank 0 (a)"}, {h100}), "");
  EXPECT_EQ(
      difference_of_units(ranks, {h100, h100, h200}),
      "GPUs differ (rank 0 (a): NVIDIA H100 with 132 multiprocessors; rank 2 (b): NVIDIA H200 with 132 multiprocessors): "
      "results may not have the bits that equal GPUs give");
  EXPECT_EQ(
      difference_of_units(ranks, {h100, a_part, h100}),
      "GPUs differ (rank 0 (a): NVIDIA H100 with 132 multiprocessors; rank 1 (a): NVIDIA H100 with 114 multiprocessors): "
      "results may not have the bits that equal GPUs give");
}

/// A machine of two memory domains, 0-15 and 16-31, with a GPU at 0000:c1:00.0.
class FarFromGpu : public testing::Test {
 protected:
  void SetUp() override {
    sys_ = fs::path(testing::TempDir()) /
           ("shoal_sys_" + std::string(testing::UnitTest::GetInstance()->current_test_info()->name()) + "_" +
            std::to_string(getpid()));
    fs::remove_all(sys_);
    write("devices/system/node/node0/cpulist", "0-15");
    write("devices/system/node/node1/cpulist", "16-31");
    unit_ = gpu("NVIDIA H100", 132);
    unit_.index = 2;
    const std::string bus = "0000:c1:00.0";
    std::copy(bus.begin(), bus.end(), unit_.bus.begin());
  }
  void TearDown() override { fs::remove_all(sys_); }

  void write(const fs::path& file, const std::string& line) {
    fs::create_directories((sys_ / file).parent_path());
    std::ofstream(sys_ / file) << line << '\n';
  }
  void gpu_is_in(const std::string& domain) { write("bus/pci/devices/0000:c1:00.0/numa_node", domain); }
  std::string said(const char* cores) const { return far_from_gpu(unit_, cores_in(cores), sys_); }

  fs::path sys_;
  Unit unit_;
};

TEST_F(FarFromGpu, NamesBothDomains) {
  gpu_is_in("1");
  EXPECT_EQ(said("4-7").substr(0, said("4-7").find(':', 30)),
            "GPU 2 (0000:c1:00.0) is in memory domain 1 with cores 16-31, and the rank's cores 4-7 are in others");
}

TEST_F(FarFromGpu, IsNoRankWithACoreBesideItsGpu) {
  gpu_is_in("1");
  EXPECT_EQ(said("16-19"), "");
  EXPECT_EQ(said("0-31"), "");
  EXPECT_EQ(said("15,16"), "");
  EXPECT_NE(said("15"), "");
}

TEST_F(FarFromGpu, IsNotSaidIfTheSystemDoesNotTell) {
  EXPECT_EQ(said("4-7"), "");  // no such device, as in some virtual machines
  gpu_is_in("-1");
  EXPECT_EQ(said("4-7"), "");
  gpu_is_in("7");  // a domain without cores
  EXPECT_EQ(said("4-7"), "");
}

}  // namespace of_gpu_places_test
}  // namespace shoal::app
