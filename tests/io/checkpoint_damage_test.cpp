// SPDX-License-Identifier: Apache-2.0
// If any byte of a checkpoint has changed, it is refused with an error of one line.
#include <hdf5.h>

#include "io/hdf5/seal.hpp"
#include "io/scratch.hpp"
#include "io/tensors.hpp"
#include "shoal/io/checkpoint.hpp"
#include "support/mpi_main.hpp"

namespace shoal::test {
namespace of_checkpoint_damage_test {

namespace fs = std::filesystem;
using testing::AnyOf;
using testing::HasSubstr;

class Damage : public testing::Test {
 protected:
  Damage() : scratch_(&world().all()), file_(scratch_.path() / "step_00000020.h5") {
    const Tensors tensors = cut(small_model(), world().all().rank(), world().all().size(), true);
    io::save_checkpoint(world(), file_, {20, "deck", {}}, tensors.slices, io::IoMode::automatic);
    content_ = read_all(file_);
  }

  /// Overwrites one byte.
  void put(std::size_t at, char byte) const {
    std::fstream file(file_, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(at)).put(byte);
  }

  /// Only rank 0 reads it back.
  std::string verify() const {
    return error_of([&] { io::verify_checkpoint(file_); });
  }

  /// All ranks load it. Returns the error's text.
  std::string load() const {
    world().all().barrier().wait();
    Tensors target = cut(small_model(), world().all().rank(), world().all().size(), false);
    const std::string message = error_of([&] { io::load_checkpoint(world(), file_, target.slices); });
    world().all().barrier().wait();
    return message;
  }

  Scratch scratch_;
  fs::path file_;
  std::string content_;
};

TEST_F(Damage, AnyBitThatFlipsIsFound) {
  ASSERT_EQ(load(), "");
  if (!scratch_.owner()) return;
  ASSERT_EQ(verify(), "");
  int tried = 0, named = 0;
  for (std::size_t at = 0; at < content_.size(); at += at < 400 || at + 400 > content_.size() ? 1 : 37) {
    put(at, static_cast<char>(content_[at] ^ (1 << (at % 8))));
    const std::string message = verify();
    put(at, content_[at]);
    ASSERT_THAT(message, HasSubstr(file_.string())) << "byte " << at;
    ++tried;
    if (message.find("/parameters/") != std::string::npos || message.find("/moments/") != std::string::npos) ++named;
  }
  EXPECT_EQ(verify(), "");
  EXPECT_GT(tried, 1000);
  EXPECT_GT(named, 300);  // raw data are a large part of the file
}

TEST_F(Damage, ATruncatedFileIsRefused) {
  if (!scratch_.owner()) return;
  for (std::size_t size = 0; size < content_.size(); size += size < 100 ? 1 : 211) {
    write_all(file_, content_.substr(0, size));
    ASSERT_THAT(verify(), HasSubstr(file_.string())) << size << " bytes";
  }
  write_all(file_, content_ + "x");
  EXPECT_THAT(verify(), HasSubstr("seal"));
}

TEST_F(Damage, IsTheSameErrorOnAllRanksAndNamesTheDataset) {
  const io::CheckpointContents contents = io::describe_checkpoint(file_);
  world().all().barrier().wait();  // before rank 0 damages what the others read
  for (const io::CheckpointDataset& dataset : contents.datasets) {
    if (scratch_.owner()) {
      std::string damaged = content_;
      damaged[dataset.offset + dataset.elements() * 4 - 1] ^= 1;  // the last byte of its last element
      write_all(file_, damaged);
    }
    const std::string message = load();
    EXPECT_THAT(message, AllOf(HasSubstr(file_.string()), HasSubstr(dataset.name), HasSubstr("checksum"),
                               HasSubstr("expected " + io::hexadecimal(dataset.checksum)), HasSubstr("damaged")));
  }
}

TEST_F(Damage, WhatIsNoCheckpointIsSaidToBeNone) {
  if (scratch_.owner()) write_all(file_, std::string(100'000, 'x'));
  EXPECT_THAT(load(), AllOf(HasSubstr(file_.string()), HasSubstr("not a checkpoint")));
  if (scratch_.owner()) write_all(file_, "");
  EXPECT_THAT(load(), HasSubstr("not a checkpoint"));
  if (scratch_.owner()) fs::remove(file_);
  EXPECT_THAT(load(), HasSubstr("no such checkpoint"));
  if (scratch_.owner()) fs::create_directory(file_);
  EXPECT_THAT(load(), HasSubstr("not a regular file"));
}

/// Changes a checkpoint's metadata. HDF5 cuts the seal off when it closes a file that it has changed; a new, valid one is
/// appended.
template <typename Change>
void change_metadata(const fs::path& file, const Change& change) {
  std::vector<io::Extent> raw = io::check_seal(file);
  const hid_t h5 = H5Fopen(file.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  change(h5);
  H5Fclose(h5);
  io::seal(file, raw);
}

TEST_F(Damage, OneOfAnOlderProgramIsOfAnUnknownRun) {
  if (scratch_.owner()) {
    change_metadata(file_, [](hid_t h5) {
      EXPECT_GE(H5Adelete(h5, "run"), 0);
      EXPECT_GE(H5Adelete(h5, "started"), 0);
      EXPECT_GE(H5Ldelete(h5, "lineage", H5P_DEFAULT), 0);
    });
  }
  EXPECT_EQ(load(), "");
  EXPECT_EQ(io::read_checkpoint_state(file_).lineage, io::Lineage{});
}

TEST_F(Damage, ANewerFormatIsRefused) {
  if (scratch_.owner()) {
    change_metadata(file_, [](hid_t h5) {
      const hid_t attribute = H5Aopen(h5, "format_version", H5P_DEFAULT);
      const std::int64_t version = 2;
      H5Awrite(attribute, H5T_NATIVE_INT64, &version);
      H5Aclose(attribute);
    });
  }
  EXPECT_THAT(load(), AllOf(HasSubstr(file_.string()), HasSubstr("format_version 2 is newer than 1")));
}

}  // namespace of_checkpoint_damage_test
}  // namespace shoal::test
