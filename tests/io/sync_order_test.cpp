// SPDX-License-Identifier: Apache-2.0
// A checkpoint gets its final name when what every node has written is on disk. Seen in the order of write(), fsync() and
// rename() on all ranks, of which each appends its calls to one file.
#include <dlfcn.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <functional>
#include <sstream>

#include "io/scratch.hpp"
#include "io/tensors.hpp"
#include "shoal/io/background_save.hpp"
#include "shoal/io/checkpoint.hpp"
#include "shoal/io/safetensors.hpp"
#include "shoal/io/text_file.hpp"
#include "shoal/io/token_file.hpp"
#include "support/mpi_main.hpp"

namespace {

std::string observed, calls;  // the beginning of the paths whose calls are noted, and the file of these notes

template <typename Function>
Function* real(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

std::string path_of(int file) {
  std::array<char, 4096> path{};
  const ssize_t length = ::readlink(("/proc/self/fd/" + std::to_string(file)).c_str(), path.data(), path.size());
  return length < 0 ? "" : std::string(path.data(), static_cast<std::size_t>(length));
}

/// One write() per line: with O_APPEND the lines of several processes follow each other in the order of the calls.
void note(const char* call, const std::string& path) {
  if (observed.empty() || path.rfind(observed, 0) != 0) return;
  const std::string line = shoal::text(shoal::test::world().all().rank(), " ", call, "\n");
  const int file = ::open(calls.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  EXPECT_EQ(real<ssize_t(int, const void*, size_t)>("write")(file, line.data(), line.size()),
            static_cast<ssize_t>(line.size()));
  ::close(file);
}

/// Bytes count as written when the call has returned, and as synced if they were when fsync() began.
ssize_t noted_write(int file, ssize_t status) {
  if (!observed.empty()) note("write", path_of(file));
  return status;
}

}  // namespace

extern "C" {

ssize_t write(int file, const void* data, size_t bytes) {
  return noted_write(file, real<ssize_t(int, const void*, size_t)>("write")(file, data, bytes));
}
ssize_t pwrite(int file, const void* data, size_t bytes, off_t at) {
  return noted_write(file, real<ssize_t(int, const void*, size_t, off_t)>("pwrite")(file, data, bytes, at));
}
ssize_t pwrite64(int file, const void* data, size_t bytes, off64_t at) {
  return noted_write(file, real<ssize_t(int, const void*, size_t, off64_t)>("pwrite64")(file, data, bytes, at));
}
int fsync(int file) {
  if (!observed.empty()) note("fsync", path_of(file));
  return real<int(int)>("fsync")(file);
}
int rename(const char* from, const char* to) noexcept {
  note("rename", from);
  return real<int(const char*, const char*)>("rename")(from, to);
}

}  // extern "C"

namespace shoal::test {
namespace {

using io::IoMode;

int ranks_of_a_node() { return world().all().size() / 2; }

/// Makes two nodes of the ranks while it exists.
struct TwoNodes {
  TwoNodes() { world().make_groups(comm_options(ranks_of_a_node())); }
  ~TwoNodes() { world().make_groups(comm_options()); }
  TwoNodes(const TwoNodes&) = delete;
  TwoNodes& operator=(const TwoNodes&) = delete;
};

class SyncOrder : public testing::Test {
 protected:
  /// What a node has done with the unfinished file before it was renamed.
  struct Node {
    bool wrote = false, synced_all = false;
  };

  template <typename Save>
  std::array<Node, 2> nodes_at_rename(const Save& save) {
    calls = (scratch_.path() / ("calls-" + std::to_string(++saves_))).string();
    observed = file_.string();
    save();
    observed.clear();
    world().all().barrier().wait();
    std::istringstream lines(read_all(calls));
    std::array<Node, 2> nodes;
    int rank = 0;
    std::string call;
    while (lines >> rank >> call && call != "rename") {
      Node& node = nodes.at(static_cast<std::size_t>(rank / ranks_of_a_node()));
      if (call == "write") node.wrote = true;
      node.synced_all = call == "fsync";
    }
    EXPECT_EQ(call, "rename") << "the file was not renamed";
    return nodes;
  }

  TwoNodes nodes_;
  Scratch scratch_{&world().all()};
  std::filesystem::path file_ = scratch_.path() / io::checkpoint_name(1);
  int saves_ = 0;
  Tensors tensors_ = cut(small_model(), world().all().rank(), world().all().size(), true);
};

TEST_F(SyncOrder, EveryNodeSyncsBeforeACheckpointIsRenamed) {
  for (const Node& node : nodes_at_rename([&] {
         io::save_checkpoint(world(), file_, {1, "deck", {}}, tensors_.slices, IoMode::independent);
       })) {
    EXPECT_TRUE(node.wrote);
    EXPECT_TRUE(node.synced_all);
  }
}

/// MPI-IO chooses the ranks that write: one of each machine.
TEST_F(SyncOrder, WhatMpiWritesIsSyncedBeforeACheckpointIsRenamed) {
  const auto nodes = nodes_at_rename([&] {
    io::save_checkpoint(world(), file_, {1, "deck", {}}, tensors_.slices, IoMode::collective);
  });
  EXPECT_TRUE(nodes[0].wrote);
  for (const Node& node : nodes) EXPECT_EQ(node.synced_all, node.wrote);
}

TEST_F(SyncOrder, EveryNodeSyncsWhatItWritesInTheBackground) {
  std::vector<float> copy(io::BackgroundSave::copy_elements(tensors_.slices));
  io::BackgroundSave background(world(), copy);
  for (const Node& node : nodes_at_rename([&] {
         background.start(file_, {1, "deck", {}}, tensors_.slices);
         background.finish();
       })) {
    EXPECT_TRUE(node.wrote);
    EXPECT_TRUE(node.synced_all);
  }
}

/// Weights, tokens, and files such as summary.json.
TEST_F(SyncOrder, ARankSyncsAFileOfItsOwnBeforeItIsRenamed) {
  const std::vector<std::function<void()>> writers = {[&] { io::write_text_file(file_, "{}"); },
                                                      [&] {
                                                        io::SafetensorsWriter weights(file_, {{"a", {2}}});
                                                        std::vector<float> two = {1, 2};
                                                        weights.append(two);
                                                        weights.finish();
                                                      },
                                                      [&] {
                                                        io::TokenFileWriter tokens(file_, 3, 5, {});
                                                        const std::vector<std::int32_t> three = {1, 4, 2};
                                                        tokens.append(three);
                                                        tokens.finish();
                                                      }};
  for (const auto& write : writers) {
    const auto nodes = nodes_at_rename([&] {
      if (world().rank() == 0) write();
    });
    EXPECT_TRUE(nodes[0].wrote);
    EXPECT_TRUE(nodes[0].synced_all);
  }
}

}  // namespace
}  // namespace shoal::test
