// SPDX-License-Identifier: Apache-2.0
#include "io/lock/lock_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <map>
#include <sstream>

#include "shoal/base/error.hpp"
#include "shoal/io/identity.hpp"

namespace shoal::io {

namespace {

constexpr const char* first_line = "shoal lock 1";
constexpr std::size_t most_bytes = 4096;

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

/// The file is not trusted: values that may not be used in a message or in a file's name become "unknown".
std::string plain(const std::string& value) {
  const bool good = !value.empty() && value.size() <= 255 && std::all_of(value.begin(), value.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '.' || c == '-' || c == '_' || c == ':';
  });
  return good ? value : "unknown";
}

template <typename T>
T number(const std::string& value) {
  std::istringstream in(value);
  T result = 0;
  in >> result;
  return in ? result : T{0};
}

double seconds(const std::string& value) {
  const auto result = number<double>(value);
  return std::isfinite(result) && result > 0 ? result : 0;
}

/// A file descriptor that its destructor closes.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int number() const { return number_; }

 private:
  int number_;
};

std::string content_of(int descriptor, const std::filesystem::path& file) {
  std::array<char, most_bytes> buffer{};
  const ssize_t size = ::pread(descriptor, buffer.data(), buffer.size(), 0);
  require(size >= 0 || errno == ESTALE, file.string(), ": cannot be read: ", std::strerror(errno));
  return {buffer.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0))};
}

LockHolder parsed(const std::string& content) {
  std::map<std::string, std::string> values;
  std::istringstream in(content);
  for (std::string line; std::getline(in, line);) {
    const std::size_t space = line.find(' ');
    if (space != std::string::npos) values[line.substr(0, space)] = line.substr(space + 1);
  }
  LockHolder holder;
  holder.token = plain(values["token"]);
  holder.host = plain(values["host"]);
  holder.since = plain(values["since"]);
  holder.process.number = number<std::int64_t>(values["process"]);
  holder.process.started = number<std::uint64_t>(values["started"]);
  holder.process.name_space = number<std::uint64_t>(values["name_space"]);
  holder.process.machine = number<std::uint64_t>(values["machine"]);
  holder.timeout = seconds(values["timeout"]);
  holder.touch_s = seconds(values["beat"]);
  return holder;
}

}  // namespace

LockHolder holder_of_this_process(double timeout_s) {
  return {random_digits(), plain(host_name()), utc_now(), comm::this_process(), timeout_s, std::min(2.0, timeout_s / 8)};
}

std::string lock_text(const LockHolder& holder) {
  return text(first_line, "\nhost ", holder.host, "\nprocess ", holder.process.number, "\nsince ", holder.since,
              "\nstarted ", holder.process.started, "\nname_space ", holder.process.name_space, "\nmachine ",
              holder.process.machine, "\ntimeout ", holder.timeout, "\nbeat ", holder.touch_s, "\ntoken ", holder.token,
              "\n");
}

std::optional<FoundLock> find_lock(const std::filesystem::path& file) {
  const Descriptor lock(::open(file.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (lock.number() < 0 && errno == ENOENT) return std::nullopt;
  struct stat status {};
  const bool regular = lock.number() >= 0 && ::fstat(lock.number(), &status) == 0 && S_ISREG(status.st_mode);
  require_input(regular || errno == EACCES, file.string(), ": is not a lock file, but has the name of one; remove it");
  require_input(regular, file.string(), ": cannot be read: ", std::strerror(errno));
  const std::string content = content_of(lock.number(), file);
  const std::string_view head = std::string_view(first_line).substr(0, std::min(content.size(), std::strlen(first_line)));
  require_input(content.starts_with(head), file.string(),
                ": is not a lock file of this program, but has the name of one; remove it");

  FoundLock found;
  found.touched_ns = std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
  found.holder = parsed(content);
  found.readable = found.holder.token != "unknown" && content.ends_with('\n');
  if (!found.readable) found.holder.token = text("unknown-", status.st_ino);
  return found;
}

std::string name_of(const FoundLock& lock) {
  if (!lock.readable) return "its lock file is incomplete and does not name it";
  return text("host ", lock.holder.host, ", process ", lock.holder.process.number, ", since ", lock.holder.since);
}

}  // namespace shoal::io
