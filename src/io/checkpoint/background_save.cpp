// SPDX-License-Identifier: Apache-2.0
#include "shoal/io/background_save.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>

#include "io/checkpoint/background.hpp"
#include "io/checkpoint/checkpoint_layout.hpp"
#include "io/checkpoint/raw_write.hpp"
#include "io/files/agreement.hpp"
#include "io/files/files.hpp"
#include "io/files/hash.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/heartbeat.hpp"
#include "shoal/base/mpi_free.hpp"
#include "shoal/base/trace.hpp"
#include "shoal/device/memory.hpp"

namespace shoal::io {

namespace fs = std::filesystem;

namespace {

/// Slices are copied and hashed in parts of this size, which stay in a core's cache between the two.
constexpr std::size_t checked_elements = std::size_t{1} << 12U;
static_assert(checked_elements % checksum_piece == 0);

/// Copies a slice to memory of the host. Returns the checksum of the copy.
std::uint64_t copy_slice(const TensorSlice& slice, Span<float> to) {
  std::uint64_t sum = 0;
  device::in_pieces(slice.values, device::Access::read, checked_elements, [&](std::size_t first, Span<float> piece) {
    for (std::size_t at = 0; at < piece.size(); at += checked_elements) {
      const Span<float> part = to.subspan(first + at, std::min(checked_elements, piece.size() - at));
      std::copy_n(piece.begin() + static_cast<std::ptrdiff_t>(at), part.size(), part.begin());
      sum += sum_of_pieces(part, (slice.range.begin + first + at) / checksum_piece);
    }
  });
  return sum;
}

std::uint64_t bytes_of_slices(const std::vector<TensorSlice>& tensors) {
  return BackgroundSave::copy_elements(tensors) * sizeof(float);
}

}  // namespace

struct BackgroundSave::State {
  enum class Phase { idle, writing, finishing };

  /// Writes to the memory of the copy, so that the first save does not wait until the system provides its pages.
  State(comm::World& on, Span<float> into) : world(on), copy(into) { std::fill(copy.begin(), copy.end(), 0.0F); }

  void copy_tensors(std::vector<TensorSlice>& slices, std::vector<std::uint64_t>& sums) const;
  void begin_writing(const std::vector<RawPart>& parts);
  void begin_finishing();
  void at_step_boundary();
  void next_phase();
  void exchange_status();
  void abandon();
  void trace_job(std::string_view name, std::uint64_t bytes) const;

  comm::World& world;
  Span<float> copy;
  Phase phase = Phase::idle;
  fs::path file, temporary;
  std::function<void()> then;  // called when the file is complete
  std::int32_t step = 0;       // the step whose states are saved
  std::uint64_t own_bytes = 0, file_bytes = 0;
  std::array<std::int64_t, 2> status{};  // is any rank still working? has any failed?
  // Declared last, so destroyed first: the request uses `status`, and the job reads the members above.
  comm::Request status_request;
  Background job;
};

void BackgroundSave::State::copy_tensors(std::vector<TensorSlice>& slices, std::vector<std::uint64_t>& sums) const {
  Span<float> rest = copy;
  for (TensorSlice& slice : slices) {
    require(slice.values.size() <= rest.size(), slice.dataset, ": the checkpoint's copy of ", copy.size(),
            " elements is too small for it");
    const Span<float> to = rest.first(slice.values.size());
    rest = rest.subspan(to.size());
    sums.push_back(copy_slice(slice, to));
    slice.values = to;
    heartbeat::beat();
  }
}

void BackgroundSave::State::begin_writing(const std::vector<RawPart>& parts) {
  phase = Phase::writing;
  status = {1, 0};
  job.start([path = temporary, parts](const std::atomic<bool>& stop) {
    File out(path, File::Mode::write_only);
    if (!write_parts(out, parts, &stop)) return;
    out.sync();  // on rank 0 also what the layout wrote
    out.close();
  });
}

void BackgroundSave::State::begin_finishing() {
  phase = Phase::finishing;
  if (world.all().rank() != 0) return;
  job.start([this](const std::atomic<bool>&) {
    commit_file(temporary, file);
    if (then) then();
  });
}

/// Acts on the state of all ranks at the previous boundary.
void BackgroundSave::State::at_step_boundary() {
  status_request.wait();
  const auto [working, failed] = status;
  if (failed != 0) return abandon();
  if (working == 0) next_phase();
  if (phase != Phase::idle) exchange_status();
}

void BackgroundSave::State::next_phase() {
  job.join();
  if (phase == Phase::writing) {
    trace_job("checkpoint/write", own_bytes);
    begin_finishing();
  } else {
    if (world.all().rank() == 0) trace_job("checkpoint/finish", file_bytes);
    phase = Phase::idle;
  }
}

/// Uses wire(), which is neither counted nor traced: traffic and trace show what steps send.
void BackgroundSave::State::exchange_status() {
  const bool done = job.done();
  status = {done ? 0 : 1, done && job.error() ? 1 : 0};
  status_request = world.all().wire().all_reduce(Span<std::int64_t>(status), comm::Reduce::max);
}

void BackgroundSave::State::abandon() {
  job.end();
  phase = Phase::idle;
  or_remove(world.all(), temporary, [&] { agree(world.all(), job.error()); });
}

void BackgroundSave::State::trace_job(std::string_view name, std::uint64_t bytes) const {
  if (!trace::on(trace::Level::steps)) return;
  trace::Event event;
  event.begin_ns = job.begin_ns();
  event.duration_ns = job.end_ns() - job.begin_ns();
  event.bytes = bytes;
  event.name = trace::name_index(name);
  event.step = step;
  event.kind = static_cast<std::uint16_t>(trace::Kind::io);
  trace::record(event);
}

std::size_t BackgroundSave::copy_elements(const std::vector<TensorSlice>& tensors) {
  return std::transform_reduce(tensors.begin(), tensors.end(), std::size_t{0}, std::plus<>(),
                               [](const TensorSlice& slice) { return slice.range.size(); });
}

BackgroundSave::BackgroundSave(comm::World& world, Span<float> copy) : state_(std::make_unique<State>(world, copy)) {}
BackgroundSave::~BackgroundSave() = default;

bool BackgroundSave::under_way() const { return state_->phase != State::Phase::idle; }

std::uint64_t BackgroundSave::start(const fs::path& file, const CheckpointState& state,
                                    const std::vector<TensorSlice>& tensors, std::function<void()> then) {
  finish();
  State& s = *state_;
  comm::Communicator& group = s.world.all();
  s.file = file;
  s.temporary = temporary_name(file);
  s.then = std::move(then);
  s.step = trace::step();
  s.own_bytes = bytes_of_slices(tensors);

  Catalogue content = catalogue(group, tensors);
  std::vector<TensorSlice> copied = tensors;
  std::vector<std::uint64_t> sums;
  {
    const trace::Region region(trace::Level::steps, trace::Kind::io, "checkpoint/copy", s.own_bytes);
    together(group, [&] { s.copy_tensors(copied, sums); });
  }
  or_remove(group, s.temporary, [&] {
    const trace::Region region(trace::Level::steps, trace::Kind::io, "checkpoint/layout");
    OpenLayout layout = lay_out(group, s.temporary, state, content, copied);
    s.file_bytes = complete(group, s.temporary, layout, content, sums);
    together_by_0(group, [&] { layout.raw.close(); });
  });
  std::vector<RawPart> parts = raw_parts(content, copied, sums);
  for (RawPart& part : parts) part.sum = nullptr;  // computed by copy_tensors()
  s.begin_writing(parts);
  return s.file_bytes;
}

void BackgroundSave::advance() {
  if (under_way()) state_->at_step_boundary();
}

void BackgroundSave::finish() {
  if (under_way()) heartbeat::phase("checkpoint");
  while (under_way()) {
    {
      const MpiFree mpi_free;  // the job may take long: other ranks that wait for this one may ask meanwhile
      state_->job.join();      // it sends heartbeats, so the watchdog notices a disk that hangs
    }
    state_->at_step_boundary();
  }
}

}  // namespace shoal::io
