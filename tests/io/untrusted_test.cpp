// SPDX-License-Identifier: Apache-2.0
// Files from anywhere: whatever an attribute or dataset is, and whichever byte of a file has changed, there is an error of
// one line, and nothing outside the file or the memory is read.
#include <hdf5.h>
#include <sys/resource.h>

#include <array>
#include <cstring>

#include "io/hdf5/global_heap.hpp"
#include "io/hdf5/packed_chunk.hpp"
#include "io/hdf5/seal.hpp"
#include "io/scratch.hpp"
#include "io/trace/trace_types.hpp"
#include "shoal/base/trace.hpp"
#include "shoal/io/file_kind.hpp"
#include "shoal/io/hexadecimal.hpp"
#include "shoal/io/token_file.hpp"
#include "shoal/io/trace_file.hpp"
#include "support/mpi_main.hpp"

namespace shoal::test {
namespace of_untrusted_test {

namespace fs = std::filesystem;
using testing::AnyOf;
using testing::HasSubstr;

/// Flips some bits of one byte of a file while it exists. It changes the file in place: writing a new one would wait for the
/// disk.
class Flipped {
 public:
  Flipped(const fs::path& file, std::uint64_t at, char bits) : file_(file), at_(at), bits_(bits) { flip(); }
  ~Flipped() { flip(); }
  Flipped(const Flipped&) = delete;
  Flipped& operator=(const Flipped&) = delete;

 private:
  void flip() const {
    std::fstream file(file_, std::ios::in | std::ios::out | std::ios::binary);
    const auto place = static_cast<std::streamoff>(at_);
    const int byte = file.seekg(place).get();
    file.seekp(place).put(static_cast<char>(byte ^ bits_));
  }

  fs::path file_;
  std::uint64_t at_;
  char bits_;
};

class Untrusted : public testing::Test {
 protected:
  /// A complete trace.
  fs::path make_trace() const {
    const fs::path file = scratch_.path() / "trace.h5";
    trace::start(trace::Level::steps, 1000);
    io::TraceHeader header;
    header.version = "0.1.0";
    header.options = {{"train.steps", "20"}};
    io::TraceFile out(world(), file, header);
    for (int i = 0; i < 50; ++i) {
      trace::Event event;
      event.bytes = static_cast<std::uint64_t>(i) * 1000;
      event.name = trace::name_index(text("kernel ", i % 5));
      trace::record(event);
    }
    out.close();
    trace::stop();
    return file;
  }

  /// Tokens of 40 symbols with a vocabulary in the form of older programs. Returns the offset of its references.
  std::uint64_t make_old_tokens(const fs::path& file, bool strings) const {
    const hid_t h5 = H5Fcreate(file.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    const std::int64_t symbols = 40;
    put_attribute(h5, "vocab_size", H5T_NATIVE_INT64, 1, &symbols);
    const std::vector<std::uint16_t> tokens(100, 7);
    H5Dclose(make_dataset(h5, "tokens", H5T_NATIVE_UINT16, {100}, tokens.data()));
    std::vector<std::string> texts;
    std::vector<hvl_t> values;
    std::vector<const char*> pointers;
    for (int i = 0; i < symbols; ++i) texts.push_back(text("token ", i));
    for (std::string& value : texts) {
      values.push_back({value.size(), value.data()});
      pointers.push_back(value.c_str());
    }
    const hid_t type = strings ? H5Tcopy(H5T_C_S1) : H5Tvlen_create(H5T_NATIVE_UINT8);
    if (strings) H5Tset_size(type, H5T_VARIABLE);
    const void* const data = strings ? static_cast<const void*>(pointers.data()) : values.data();
    const hid_t dataset = make_dataset(h5, "vocabulary", type, {40}, data);
    const std::uint64_t place = H5Dget_offset(dataset);
    H5Dclose(dataset);
    H5Tclose(type);
    H5Fclose(h5);
    return place;
  }

  static hid_t make_dataset(hid_t file, const char* name, hid_t type, const std::vector<hsize_t>& shape, const void* data) {
    const hid_t space = H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr);
    const hid_t dataset = H5Dcreate2(file, name, type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    if (data != nullptr) H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data);
    H5Sclose(space);
    return dataset;
  }

  static void put_attribute(hid_t at, const char* name, hid_t type, hsize_t count, const void* data) {
    if (H5Aexists(at, name) > 0) H5Adelete(at, name);
    const hid_t space = H5Screate_simple(1, &count, nullptr);
    const hid_t attribute = H5Acreate2(at, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
    H5Awrite(attribute, type, data);
    H5Aclose(attribute);
    H5Sclose(space);
  }

  std::string describe(const fs::path& file, bool verify = false) const {
    return error_of([&] { io::describe_trace(file, verify); });
  }
  std::string open_tokens(const fs::path& file) const {
    return error_of([&] {
      const io::TokenFile tokens(file);
      tokens.verify();
    });
  }

  Scratch scratch_{&world().all()};
};

TEST_F(Untrusted, AttributesOfAnotherClassOrNumber) {
  const fs::path file = make_trace();
  const std::string good = read_all(file);
  const std::vector<std::int64_t> numbers(5000, 1);
  const std::vector<double> reals(5000, 1);
  for (const char* const name : {"format_version", "world_size", "nodes", "complete", "version", "started", "level"}) {
    for (const bool many : {true, false}) {
      write_all(file, good);
      const hid_t h5 = H5Fopen(file.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
      put_attribute(h5, name, many ? H5T_NATIVE_INT64 : H5T_NATIVE_DOUBLE, many ? 5000 : 1, numbers.data());
      H5Fclose(h5);
      EXPECT_THAT(describe(file), AllOf(HasSubstr(file.string()), HasSubstr(text("attribute ", name, ": not"))));
    }
  }
  write_all(file, good);
  const hid_t h5 = H5Fopen(file.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  const hid_t type = H5Tcopy(H5T_C_S1);
  H5Tset_size(type, 5);
  put_attribute(h5, "level", type, 1, "steps");  // of fixed length, without a terminating zero: valid
  H5Tclose(type);
  H5Fclose(h5);
  EXPECT_EQ(describe(file), "");
  EXPECT_EQ(io::describe_trace(file).level, "steps");
  EXPECT_THAT(describe(file, true), HasSubstr("there is no seal at its end"));
}

/// The largest resident set of this process so far.
long peak_kib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

TEST_F(Untrusted, RecordsAndListsThatClaimMoreThanThereIs) {
  const fs::path file = make_trace();
  const std::string good = read_all(file);
  for (const char* const name : {"names", "flushes"}) {
    write_all(file, good);
    const hid_t h5 = H5Fopen(file.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    const hid_t dataset = H5Dopen2(h5, name, H5P_DEFAULT);
    const hsize_t rows = hsize_t{1} << 28U;
    ASSERT_GE(H5Dset_extent(dataset, &rows), 0);
    H5Dclose(dataset);
    H5Fclose(h5);
    const long before = peak_kib();
    EXPECT_THAT(describe(file), AllOf(HasSubstr(name), HasSubstr("268435456")));
    EXPECT_LT(peak_kib() - before, 64 << 10) << "no memory is taken for what the file claims";
  }
  write_all(file, good);
  const hid_t h5 = H5Fopen(file.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  H5Ldelete(h5, "flushes", H5P_DEFAULT);
  const std::vector<double> reals(5);
  H5Dclose(make_dataset(h5, "flushes", H5T_NATIVE_DOUBLE, {5}, reals.data()));
  H5Fclose(h5);
  EXPECT_THAT(describe(file), HasSubstr("/flushes: its records are not those of a trace"));
}

/// Older programs did not compress; the oldest wrote no queues, and a depth of 32 bits.
TEST_F(Untrusted, TracesOfOlderFormatsAreRead) {
  const fs::path file = make_trace();
  std::vector<trace::Event> rows(50);
  for (trace::Event& row : rows) row.depth = 3;
  const auto older = [&](std::int64_t version, const io::hdf5::Handle& type) {
    const hid_t h5 = H5Fopen(file.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    put_attribute(h5, "format_version", H5T_NATIVE_INT64, 1, &version);
    H5Ldelete(h5, "events", H5P_DEFAULT);
    if (version == 1 && H5Lexists(h5, "queues", H5P_DEFAULT) > 0) H5Ldelete(h5, "queues", H5P_DEFAULT);
    if (version == 1 && H5Aexists(h5, "untimed_spans") > 0) H5Adelete(h5, "untimed_spans");
    const hid_t events = make_dataset(h5, "events", type.id(), {rows.size()}, rows.data());
    const std::string sum = io::hexadecimal(io::sum_of_rows(rows, 0));
    const hid_t text = H5Tcopy(H5T_C_S1);
    H5Tset_size(text, sum.size());
    put_attribute(events, "checksum", text, 1, sum.data());
    H5Tclose(text);
    H5Dclose(events);
    H5Fclose(h5);
    io::seal(file, {});
  };
  older(2, io::event_type(2));
  ASSERT_EQ(describe(file, true), "");
  EXPECT_EQ(io::describe_trace(file).format_version, 2);
  older(1, io::event_type(1));
  ASSERT_EQ(describe(file, true), "");
  const io::TraceContents contents = io::describe_trace(file);
  EXPECT_EQ(contents.format_version, 1);
  EXPECT_TRUE(contents.queues.empty());
  EXPECT_EQ(contents.untimed_spans, 0);
  older(1, io::event_type(2));
  EXPECT_THAT(describe(file, true), HasSubstr("/events: its records are not those of a trace"));
}

TEST_F(Untrusted, QueuesOfAnotherClassOrNumber) {
  const fs::path file = make_trace();
  const std::string good = read_all(file);
  const auto changed = [&](hsize_t rows, bool texts) {
    write_all(file, good);
    const hid_t h5 = H5Fopen(file.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    H5Ldelete(h5, "queues", H5P_DEFAULT);
    const hid_t type = texts ? H5Tcopy(H5T_C_S1) : H5Tcopy(H5T_NATIVE_DOUBLE);
    if (texts) H5Tset_size(type, 8);
    if (rows < 1000) H5Dclose(make_dataset(h5, "queues", type, {rows}, nullptr));
    H5Tclose(type);
    H5Fclose(h5);
    return describe(file);
  };
  EXPECT_THAT(changed(0, true), HasSubstr("/queues: no row for the host"));
  EXPECT_THAT(changed(3, false), HasSubstr("queues"));
  EXPECT_THAT(changed(1000, true), HasSubstr("queues"));  // absent
  write_all(file, good);
  const hid_t h5 = H5Fopen(file.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  const double half = 0.5;
  put_attribute(h5, "untimed_spans", H5T_NATIVE_DOUBLE, 1, &half);
  H5Fclose(h5);
  EXPECT_THAT(describe(file), HasSubstr("attribute untimed_spans: not"));
}

TEST_F(Untrusted, AnyBitOfASealedTraceThatFlipsIsFound) {
  const fs::path file = make_trace();
  const std::string good = read_all(file);
  ASSERT_EQ(describe(file, true), "");
  std::uint64_t unnoticed = 0;
  for (std::size_t at = 0; at < good.size(); at += at < 400 || at + 400 > good.size() ? 1 : 211) {
    const Flipped flipped(file, at, static_cast<char>(1 << at % 8));
    if (describe(file, true).empty()) ++unnoticed;
  }
  const std::vector<io::Extent> raw = io::check_seal(file);
  ASSERT_EQ(raw.size(), 1U) << "one chunk of events";
  EXPECT_LE(unnoticed, raw[0].bytes / 211 + 1);
  std::uint64_t same = 0;  // deflate can say the same in several ways: then the rows are what they were
  for (std::uint64_t at = raw[0].offset; at < raw[0].offset + raw[0].bytes; ++at) {
    const Flipped flipped(file, at, 8);
    EXPECT_EQ(describe(file), "");
    const std::string found = describe(file, true);
    if (found.empty()) ++same;
    EXPECT_THAT(found, AnyOf("", AllOf(HasSubstr("/events: the chunk of row 0"), HasSubstr("damaged")))) << at;
  }
  EXPECT_LT(same, raw[0].bytes / 4);
}

/// Chunks that do not give what they should, and datasets of another form than those that are written.
TEST_F(Untrusted, ChunksOfATraceThatAreNotWhatTheyShouldBe) {
  const fs::path file = make_trace();
  const std::string good = read_all(file);
  enum class Form { right, no_shuffle, checked, other_chunk, contiguous };
  /// Replaces /events by one chunk of `rows` rows. Returns what is said of the trace, which is sealed again.
  const auto with_chunk = [&](std::size_t rows, Form form = Form::right, std::uint32_t left_out = 0) {
    write_all(file, good);
    const hid_t h5 = H5Fopen(file.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    H5Ldelete(h5, "events", H5P_DEFAULT);
    const std::vector<trace::Event> content(rows);
    const hsize_t total = io::trace_chunk_rows, chunk = form == Form::other_chunk ? total / 2 : total, first = 0;
    const hid_t space = H5Screate_simple(1, &total, nullptr), create = H5Pcreate(H5P_DATASET_CREATE);
    if (form != Form::contiguous) {
      H5Pset_chunk(create, 1, &chunk);
      if (form != Form::no_shuffle) H5Pset_shuffle(create);
      H5Pset_deflate(create, 1);
      if (form == Form::checked) H5Pset_fletcher32(create);
    }
    const hid_t events = H5Dcreate2(h5, "events", io::event_type().id(), space, H5P_DEFAULT, create, H5P_DEFAULT);
    if (form == Form::right) {
      const std::vector<std::byte> packed = io::pack(std::as_bytes(Span<const trace::Event>(content)), sizeof(trace::Event));
      EXPECT_GE(H5Dwrite_chunk(events, H5P_DEFAULT, left_out, &first, packed.size(), packed.data()), 0);
    } else {
      H5Dwrite(events, io::event_type().id(), H5S_ALL, H5S_ALL, H5P_DEFAULT, content.data());
    }
    const std::string sum = io::hexadecimal(io::sum_of_rows(std::vector<trace::Event>(total), 0));
    const hid_t text = H5Tcopy(H5T_C_S1);
    H5Tset_size(text, sum.size());
    put_attribute(events, "checksum", text, 1, sum.data());
    H5Tclose(text);
    H5Pclose(create);
    H5Sclose(space);
    H5Dclose(events);
    H5Fclose(h5);
    io::seal(file, {});
    return describe(file, true);
  };
  const std::size_t rows = io::trace_chunk_rows;
  EXPECT_EQ(with_chunk(rows), "");
  for (const std::size_t wrong : {rows - 1, rows + 1, 1000 * rows}) {
    EXPECT_THAT(with_chunk(wrong), HasSubstr("do not give 24576; the file is damaged")) << wrong;
  }
  EXPECT_THAT(with_chunk(rows, Form::right, 2), HasSubstr("it is not compressed as the others are"));
  EXPECT_THAT(with_chunk(rows, Form::no_shuffle), HasSubstr("its filters are not shuffle and deflate"));
  EXPECT_THAT(with_chunk(rows, Form::checked), HasSubstr("its filters are not shuffle and deflate"));
  EXPECT_THAT(with_chunk(rows, Form::other_chunk), HasSubstr("chunks of 256 rows; allowed: 512"));
  EXPECT_THAT(with_chunk(rows, Form::contiguous), HasSubstr("/events: not a list in chunks"));
}

/// HDF5 would look for a program that provides an unknown filter, and would believe that a few bytes are millions of tokens.
TEST_F(Untrusted, FiltersThatAreNotKnownAndTooMuchOfAFewBytes) {
  const fs::path file = scratch_.path() / "tokens.h5";
  const auto with = [&](const auto& set_filter, hsize_t tokens) {
    const hid_t h5 = H5Fcreate(file.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    const std::int64_t symbols = 40;
    put_attribute(h5, "vocab_size", H5T_NATIVE_INT64, 1, &symbols);
    const hsize_t chunk = 1000, written = std::min<hsize_t>(tokens, 5000), none = 0;
    const hid_t space = H5Screate_simple(1, &tokens, nullptr), create = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_chunk(create, 1, &chunk);
    set_filter(create);
    const hid_t dataset = H5Dcreate2(h5, "tokens", H5T_STD_U16LE, space, H5P_DEFAULT, create, H5P_DEFAULT);
    const hid_t memory = H5Screate_simple(1, &written, nullptr);
    H5Sselect_hyperslab(space, H5S_SELECT_SET, &none, nullptr, &written, nullptr);
    const std::vector<std::uint16_t> values(written, 7);
    EXPECT_GE(H5Dwrite(dataset, H5T_NATIVE_UINT16, memory, space, H5P_DEFAULT, values.data()), 0);
    H5Sclose(memory);
    H5Dclose(dataset);
    H5Pclose(create);
    H5Sclose(space);
    H5Fclose(h5);
    return open_tokens(file);
  };
  EXPECT_EQ(with([](hid_t create) { H5Pset_deflate(create, 1); }, 5000), "");
  EXPECT_THAT(with([](hid_t create) { H5Pset_deflate(create, 1); }, hsize_t{1} << 30U),
              AllOf(HasSubstr("/tokens: 1073741824 elements of which the file has"), HasSubstr("damaged")));
  EXPECT_THAT(with([](hid_t create) { H5Pset_scaleoffset(create, H5Z_SO_INT, 0); }, 5000),
              HasSubstr("/tokens: filter 6; allowed: shuffle, deflate and fletcher32"));
}

TEST_F(Untrusted, OldVocabulariesAreReadAsTheyAre) {
  for (const bool strings : {false, true}) {
    const fs::path file = scratch_.path() / "old.h5";
    make_old_tokens(file, strings);
    const io::TokenFile tokens(file);
    ASSERT_EQ(tokens.vocabulary().size(), 40U);
    EXPECT_EQ(tokens.vocabulary()[39], "token 39");
    EXPECT_FALSE(tokens.verify());
  }
}

TEST_F(Untrusted, DamagedReferencesAndHeaps) {
  const fs::path file = scratch_.path() / "old.h5";
  for (const bool strings : {false, true}) {
    const std::uint64_t references = make_old_tokens(file, strings);
    const std::string good = read_all(file);
    const std::size_t heap = good.find("GCOL");
    ASSERT_NE(heap, std::string::npos);
    for (const std::uint64_t begin : {references, std::uint64_t{heap}}) {
      for (std::uint64_t at = begin; at < begin + 640; ++at) {
        const Flipped flipped(file, at, std::array{'\x01', '\x80', '\xFF'}[at % 3]);
        const std::string message = open_tokens(file);  // another text of the file may be returned; a crash is not allowed
        ASSERT_TRUE(message.empty() || message.starts_with(file.string() + ": /vocabulary")) << at << ": " << message;
      }
    }
    std::string all_the_same = good;  // all tokens refer to one object
    for (int i = 1; i < 40; ++i)
      std::memcpy(&all_the_same[references + 16 * static_cast<unsigned>(i)], &good[references], 16);
    write_all(file, all_the_same);
    EXPECT_EQ(open_tokens(file), "");
  }
}

/// A heap in memory: objects of these lengths, numbered from 1.
std::string heap_of(const std::vector<std::uint64_t>& lengths) {
  std::string content("GCOL\1\0\0\0", 8);
  std::string objects;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    std::string head(16, '\0');
    head[0] = static_cast<char>(i + 1);
    std::memcpy(&head[8], &lengths[i], 8);
    objects += head + std::string((lengths[i] + 7) / 8 * 8, 'x');
  }
  const std::uint64_t bytes = 16 + objects.size();
  content.append(reinterpret_cast<const char*>(&bytes), 8);
  return content + objects;
}

TEST(Heap, GivesNoMoreThanTheFileHolds) {
  const std::string content = heap_of({5, 0, 100});
  const auto read = [&](std::uint64_t at, Span<std::byte> to) {
    ASSERT_LE(at + to.size(), content.size());
    std::memcpy(to.data(), content.data() + at, to.size());
  };
  io::GlobalHeap heap(content.size(), read);
  EXPECT_EQ(heap.value({5, 0, 1}), "xxxxx");
  EXPECT_EQ(heap.value({0, 12345, 9}), "");
  const auto refusal = [&](const io::HeapReference& reference) { return error_of([&] { heap.value(reference); }); };
  EXPECT_THAT(refusal({6, 0, 1}), HasSubstr("object 1: there is no such"));
  EXPECT_THAT(refusal({1, 0, 4}), HasSubstr("object 4: there is no such"));
  EXPECT_THAT(refusal({1, 8, 1}), HasSubstr("no collection begins here"));
  EXPECT_THAT(refusal({1, content.size() - 8, 1}), HasSubstr("beyond the end"));
  EXPECT_THAT(refusal({1, ~std::uint64_t{0}, 1}), HasSubstr("beyond the end"));
  std::string last;
  for (int i = 0; i < 3 && last.empty(); ++i) last = refusal({100, 0, 3});
  EXPECT_THAT(last, HasSubstr("together longer than the file"));
}

TEST_F(Untrusted, TokensAndVocabulariesThatChangedAreFound) {
  const fs::path file = scratch_.path() / "tokens.h5";
  {
    io::TokenFileWriter writer(file, 1000, 300, {"a", "bc", ""});
    writer.append(std::vector<std::int32_t>(1000, 299));
    writer.finish();
  }
  const std::string good = read_all(file);
  EXPECT_EQ(open_tokens(file), "");
  EXPECT_TRUE(io::TokenFile(file).verify());
  int silent = 0;
  for (std::size_t at = 0; at < good.size(); at += 5) {  // except for the name in the seal
    if (at + 40 >= good.size() && at + 24 < good.size()) continue;
    const Flipped flipped(file, at, 2);
    if (open_tokens(file).empty()) ++silent;
  }
  EXPECT_EQ(silent, 0);

  const hid_t h5 = H5Fopen(file.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  const hid_t dataset = H5Dopen2(h5, "vocabulary_offsets", H5P_DEFAULT);
  const std::vector<std::uint64_t> offsets = {0, 4, 3, 3};
  H5Dwrite(dataset, H5T_NATIVE_UINT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, offsets.data());
  EXPECT_GE(H5Adelete(dataset, "checksum"), 0);
  H5Dclose(dataset);
  H5Fclose(h5);
  EXPECT_THAT(open_tokens(file), HasSubstr("/vocabulary_offsets[1] = 4: less than the offset before it"));
}

TEST_F(Untrusted, TextsOfAFileDoNotBreakTheLineOfAMessage) {
  const fs::path file = scratch_.path() / "tokens.h5";
  {
    io::TokenFileWriter writer(file, 3, 300, {"a", "bc", ""});
    writer.append(std::vector<std::int32_t>(3, 299));
    writer.finish();
  }
  const hid_t h5 = H5Fopen(file.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  const hid_t dataset = H5Dopen2(h5, "vocabulary_bytes", H5P_DEFAULT);
  const hid_t attribute = H5Aopen(dataset, "checksum", H5P_DEFAULT), type = H5Aget_type(attribute);
  std::vector<char> sum(H5Tget_size(type), '\n');
  EXPECT_GE(H5Awrite(attribute, type, sum.data()), 0);
  H5Tclose(type);
  H5Aclose(attribute);
  H5Dclose(dataset);
  H5Fclose(h5);
  EXPECT_THAT(open_tokens(file), AllOf(HasSubstr(R"(/vocabulary_bytes: checksum '\n\n)"), Not(HasSubstr("\n"))));
}

TEST_F(Untrusted, TokensInOtherFilesAreRefused) {
  const fs::path file = scratch_.path() / "tokens.h5", secret = scratch_.path() / "secret";
  write_all(secret, std::string(200, 's'));
  const hid_t h5 = H5Fcreate(file.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  const std::int64_t symbols = 65536;
  put_attribute(h5, "vocab_size", H5T_NATIVE_INT64, 1, &symbols);
  const hsize_t count = 100;
  const hid_t space = H5Screate_simple(1, &count, nullptr), create = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_external(create, secret.c_str(), 0, 200);
  H5Dclose(H5Dcreate2(h5, "tokens", H5T_NATIVE_UINT16, space, H5P_DEFAULT, create, H5P_DEFAULT));
  H5Pclose(create);
  H5Sclose(space);
  H5Fclose(h5);
  EXPECT_THAT(open_tokens(file), HasSubstr("/tokens: its data are in another file"));
}

/// What the library says of a dataset's place is true in the file that holds it: the one that was opened, or the dataset is
/// refused. The links and virtual datasets of this test lead to tokens that differ from those at the same place here.
TEST_F(Untrusted, ADatasetIsOfTheFileThatWasOpened) {
  const fs::path there = scratch_.path() / "there.h5";
  make_old_tokens(there, true);
  const hsize_t count = 100;
  const std::vector<std::uint16_t> sevens(count, 7), threes(20000, 3);
  const auto make = [&](const char* name, auto&& put) {
    const fs::path file = scratch_.path() / name;
    const hid_t h5 = H5Fcreate(file.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    const std::int64_t symbols = 40;
    put_attribute(h5, "vocab_size", H5T_NATIVE_INT64, 1, &symbols);
    H5Dclose(make_dataset(h5, "notes", H5T_NATIVE_UINT16, {threes.size()}, threes.data()));
    put(h5);
    H5Fclose(h5);
    return file;
  };
  const auto external = [&](const char* target, const char* name) {
    return [=](hid_t h5) { H5Lcreate_external("there.h5", target, h5, name, H5P_DEFAULT, H5P_DEFAULT); };
  };
  for (const char* name : {"tokens", "samples"}) {
    const fs::path file = make("external.h5", external("/tokens", name));
    EXPECT_THAT(open_tokens(file), AllOf(HasSubstr(text(file.string(), ": /", name, ": an external link")),
                                         HasSubstr("there.h5"), Not(HasSubstr("\n"))));
  }
  const fs::path around = make("around.h5", [&](hid_t h5) {
    external("/", "elsewhere")(h5);
    H5Lcreate_soft("/elsewhere/tokens", h5, "tokens", H5P_DEFAULT, H5P_DEFAULT);
  });
  EXPECT_THAT(open_tokens(around), HasSubstr("/tokens: an external link into another file, there.h5"));
  const fs::path joined = make("virtual.h5", [&](hid_t h5) {
    const hid_t space = H5Screate_simple(1, &count, nullptr), create = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_virtual(create, space, "there.h5", "/tokens", space);
    H5Dclose(H5Dcreate2(h5, "tokens", H5T_NATIVE_UINT16, space, H5P_DEFAULT, create, H5P_DEFAULT));
    H5Pclose(create);
    H5Sclose(space);
  });
  EXPECT_THAT(open_tokens(joined), HasSubstr("/tokens: its data are in another file (a virtual dataset)"));

  for (const bool soft : {false, true}) {
    const io::TokenFile file(make("linked.h5", [&](hid_t h5) {
      H5Gclose(H5Gcreate2(h5, "data", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
      H5Dclose(make_dataset(h5, "data/ids", H5T_NATIVE_UINT16, {count}, sevens.data()));
      if (soft) H5Lcreate_soft("/data/ids", h5, "tokens", H5P_DEFAULT, H5P_DEFAULT);
      if (!soft) H5Lcreate_hard(h5, "/data/ids", h5, "tokens", H5P_DEFAULT, H5P_DEFAULT);
    }));
    std::vector<std::int32_t> tokens(count);
    io::TokenReader(file.layout()).read(0, tokens);
    EXPECT_THAT(tokens, testing::Each(7)) << soft;
  }
}

/// HDF5 1.10 reads beyond the end of a chunk that gives fewer bytes than it should.
TEST_F(Untrusted, ChunksOfOtherProgramsThatAreNotWhole) {
  const fs::path file = scratch_.path() / "tokens.h5";
  const std::vector<std::uint16_t> all(3000, 7);
  /// Samples of 30 tokens in chunks of 10 x 20, of which the one at this place gives only some bytes, or too many.
  const auto with = [&](const auto& set_filters, hsize_t row, hsize_t column, std::size_t bytes, bool checksum) {
    const hid_t h5 = H5Fcreate(file.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    const std::int64_t symbols = 40;
    put_attribute(h5, "vocab_size", H5T_NATIVE_INT64, 1, &symbols);
    const hsize_t shape[] = {100, 30}, chunk[] = {10, 20}, at[] = {row, column};
    const hid_t space = H5Screate_simple(2, shape, nullptr), create = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_chunk(create, 2, chunk);
    set_filters(create);
    const hid_t dataset = H5Dcreate2(h5, "samples", H5T_STD_U16LE, space, H5P_DEFAULT, create, H5P_DEFAULT);
    EXPECT_GE(H5Dwrite(dataset, H5T_NATIVE_UINT16, H5S_ALL, H5S_ALL, H5P_DEFAULT, all.data()), 0);
    if (bytes > 0) {
      std::vector<std::byte> packed = io::pack(std::as_bytes(Span<const std::uint16_t>(all)).first(bytes), 1);
      if (checksum) packed.resize(packed.size() + 4);
      EXPECT_GE(H5Dwrite_chunk(dataset, H5P_DEFAULT, 0, at, packed.size(), packed.data()), 0);
    }
    H5Dclose(dataset);
    H5Pclose(create);
    H5Sclose(space);
    H5Fclose(h5);
    try {
      const io::TokenFile tokens(file);
      std::vector<std::int32_t> sample(30);
      for (const std::size_t i : {0, 95, 42}) tokens.read(i, sample);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const auto deflate = [](hid_t create) { H5Pset_deflate(create, 1); };
  const auto both = [](hid_t create) { H5Pset_shuffle(create), H5Pset_deflate(create, 1), H5Pset_fletcher32(create); };
  const auto checked = [](hid_t create) { H5Pset_fletcher32(create); };
  EXPECT_EQ(with(deflate, 0, 0, 0, false), "");
  EXPECT_EQ(with(both, 0, 0, 0, false), "");
  EXPECT_EQ(with(checked, 0, 0, 0, false), "");
  EXPECT_EQ(with(deflate, 40, 20, 400, false), "");
  EXPECT_THAT(with(deflate, 40, 20, 399, false), HasSubstr("/samples: the chunk of row 40: 399 bytes instead of 400"));
  EXPECT_THAT(with(deflate, 40, 0, 10, false), HasSubstr("/samples: the chunk of row 40: 10 bytes instead of 400"));
  EXPECT_THAT(with(deflate, 90, 0, 401, false), HasSubstr("row 90: its"));
  EXPECT_THAT(with(both, 90, 20, 30, true), HasSubstr("row 90: 30 bytes instead of 400"));
  EXPECT_THAT(with(checked, 0, 0, 3, false), HasSubstr("row 0: "));
}

/// Lists of strings and records that another program has compressed are read.
TEST_F(Untrusted, CompressedListsOfStringsAreRead) {
  const fs::path file = make_trace();
  const hid_t h5 = H5Fopen(file.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  H5Ldelete(h5, "names", H5P_DEFAULT);
  const hsize_t count = 100, chunk = 30;
  const hid_t space = H5Screate_simple(1, &count, nullptr), create = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_chunk(create, 1, &chunk);
  H5Pset_deflate(create, 1);
  const io::hdf5::Handle type = io::hdf5::text_type();
  const hid_t names = H5Dcreate2(h5, "names", type.id(), space, H5P_DEFAULT, create, H5P_DEFAULT);
  const std::vector<const char*> values(count, "a name");
  EXPECT_GE(H5Dwrite(names, type.id(), H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), 0);
  H5Dclose(names);
  H5Pclose(create);
  H5Sclose(space);
  H5Fclose(h5);
  EXPECT_EQ(describe(file), "");
  EXPECT_EQ(io::describe_trace(file).names, std::vector<std::string>(count, "a name"));
}

TEST_F(Untrusted, LinksAreNotWrittenThrough) {
  const fs::path file = scratch_.path() / "tokens.h5", precious = scratch_.path() / "precious";
  write_all(precious, "precious");
  fs::create_symlink(precious, file.string() + ".partial");
  {
    io::TokenFileWriter writer(file, 2, 10, {});
    writer.append(std::vector<std::int32_t>{1, 2});
    writer.finish();
  }
  EXPECT_EQ(open_tokens(file), "");
  EXPECT_EQ(read_all(precious), "precious");
}

}  // namespace of_untrusted_test
}  // namespace shoal::test
