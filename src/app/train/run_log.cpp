// SPDX-License-Identifier: Apache-2.0
#include "app/train/run_log.hpp"

#include <cerrno>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

#include "app/support/collective.hpp"
#include "app/support/output_paths.hpp"
#include "app/support/own_results.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/output.hpp"
#include "shoal/io/identity.hpp"
#include "shoal/io/text_file.hpp"

namespace shoal::app {

namespace fs = std::filesystem;

namespace {

fs::path log_path(const config::Options& options) { return fs::path(options.output.dir) / log_name; }

/// A run that was killed may have left an incomplete last line.
bool ends_within_a_line(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  in.seekg(-1, std::ios::end);
  return in.get() != '\n';
}

/// Makes the file ready for this run's lines.
void prepare(const fs::path& file, bool resumes) {
  std::error_code error;
  if (!fs::exists(fs::symlink_status(file, error))) {
    io::write_text_file(file, text(log_mark, ", ", io::utc_now(), "\n"));  // complete, so that it is always known as ours
    return;
  }
  require(io::is_own(file, own_log()), file.string(), ": is not a log of shoal, so it is left as it is");
  const char* const begin = ends_within_a_line(file) ? "\n" : "";
  std::ofstream out(file, std::ios::app | std::ios::binary);
  out << begin << "# " << (resumes ? "resumed, " : "begun again, ") << io::utc_now() << "\n" << std::flush;
  require(out.good(), file.string(), ": cannot be written: ", std::strerror(errno));
}

}  // namespace

void keep_for_log(const comm::World& world) {
  if (world.rank() == 0) output::keep();
}

void start_log(comm::World& world, const config::Options& options) {
  const fs::path file = log_path(options);
  std::string log = file;
  if (world.all().rank() == 0) {
    try {
      prepare(file, options.checkpoint.resume != "none");
    } catch (const std::exception& error) {
      output::complain(text("shoal: warning: ", error.what(), "; the run goes on without a log there\n"));
      log.clear();
    }
  }
  output::log_to(broadcast_text(world.all(), log, 0));
}

void remove_log(const config::Options& options) {
  std::error_code stays;  // then the run's lines follow the old ones
  if (io::is_own(log_path(options), own_log())) fs::remove(log_path(options), stays);
}

}  // namespace shoal::app
