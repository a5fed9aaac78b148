// SPDX-License-Identifier: Apache-2.0
#include "app/jobscript/jobscript.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "app/jobscript/job_scripts.hpp"
#include "app/support/shell_words.hpp"
#include "shoal/base/counted.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/notation.hpp"
#include "shoal/config/value.hpp"
#include "shoal/config/wall_time.hpp"

namespace shoal::app {

namespace {

namespace fs = std::filesystem;

constexpr const char* mark = "# Written by `shoal jobscript`";

constexpr std::uint64_t mib = 1U << 20U;

/// Memory of a process beside what is planned and its text: the program, MPI, buffers of files; on GPUs also CUDA's
/// libraries, of which other programs report one to two GiB.
std::uint64_t besides_plan_mib(const Job& job) { return job.on_gpus() ? 2048 : 256; }
constexpr double more_than_planned = 1.05;

/// The wall time before whose end SLURM sends the warning; of a short job a quarter.
constexpr std::uint64_t longest_warning_s = 120;

std::string text_of(const std::optional<std::uint64_t>& text_bytes) {
  if (!text_bytes) return ". The text of data.source is not here, and not counted";
  return *text_bytes == 0 ? "" : text(", and ", bytes_text(*text_bytes), " of text (tokens files need none)");
}

std::uint64_t node_mib(const Job& job) {
  const double rank = more_than_planned * static_cast<double>(job.rank_bytes) +
                      static_cast<double>(besides_plan_mib(job) * mib + job.text_bytes.value_or(0));
  return static_cast<std::uint64_t>(std::ceil(rank * static_cast<double>(job.ranks_per_node) / static_cast<double>(mib)));
}

/// A script whose lines are replaced by their beginnings.
class Script {
 public:
  explicit Script(std::string text) : text_(std::move(text)) {}

  /// The line that begins so becomes this one, or these.
  void replace(const std::string& begin, const std::string& line) {
    const std::size_t at = text_.find("\n" + begin);
    require(at != std::string::npos, "jobscript: no line of the script begins with ", begin);
    text_.replace(at + 1, text_.find('\n', at + 1) - at - 1, line);
  }
  /// The comments at its head, up to the first directive.
  void replace_head(const std::string& lines, const std::string& directive) {
    const std::size_t begin = text_.find('\n') + 1, end = text_.find(directive);
    require(end != std::string::npos, "jobscript: the script has no ", directive);
    text_.replace(begin, end - begin, lines);
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

/// This for each node if the job is on GPUs, otherwise nothing.
std::string gpus(const Job& job, const char* asked) { return job.on_gpus() ? text(asked, job.ranks_per_node) : ""; }

void write_slurm(Script& script, const Job& job) {
  script.replace("#SBATCH --nodes=", text("#SBATCH --nodes=", job.nodes));
  script.replace("#SBATCH --ntasks-per-node=", text("#SBATCH --ntasks-per-node=", job.ranks_per_node));
  script.replace("#SBATCH --cpus-per-task=",
                 text("#SBATCH --cpus-per-task=", job.cores_per_rank, gpus(job, "\n#SBATCH --gpus-per-node="),
                      "\n#SBATCH --mem=", node_mib(job), "M"));
  script.replace("#SBATCH --time=", "#SBATCH --time=" + config::wall_time_text(job.seconds));
  script.replace("#SBATCH --signal=",
                 text("#SBATCH --signal=B:USR1@", std::clamp<std::uint64_t>(job.seconds / 4, 1, longest_warning_s)));
}

void write_pbs(Script& script, const Job& job) {
  script.replace("#PBS -l select=",
                 text("#PBS -l select=", job.nodes, ":ncpus=", job.ranks_per_node * job.cores_per_rank, gpus(job, ":ngpus="),
                      ":mpiprocs=", job.ranks_per_node, ":ompthreads=", job.cores_per_rank, ":mem=", node_mib(job), "mb"));
  script.replace("#PBS -l walltime=", "#PBS -l walltime=" + config::wall_time_text(job.seconds));
}

struct Template {
  System system;
  const char* const* script;
  const char* directive;
  const char* submit;  ///< the command that submits it
  const char* out;     ///< begins the line that sets output.dir
  void (*fill)(Script& script, const Job& job);
};
constexpr std::array templates = {Template{System::slurm, &slurm_script, "#SBATCH", "sbatch", "out=", write_slurm},
                                  Template{System::pbs, &pbs_script, "#PBS", "qsub", "base=", write_pbs}};

const Template& template_of(System system) {
  return *std::find_if(templates.begin(), templates.end(), [&](const Template& each) { return each.system == system; });
}

}  // namespace

std::uint64_t host_bytes(const Ledger& planned, device::DeviceKind kind) {
  return kind == device::DeviceKind::cuda ? planned[Kind::staging] : planned.total();
}

std::string script_of(const Job& job, System system) {
  const Template& chosen = template_of(system);
  Script script(*chosen.script);
  chosen.fill(script, job);
  script.replace_head(
      text(
          "# SPDX-License-Identifier: Apache-2.0\n", mark, " for ", config::shown(job.deck), ": ",
          counted(job.nodes, "node"), " x ", counted(job.ranks_per_node, "rank"), " x ", counted(job.cores_per_rank, "core"),
          ".\n# A rank plans ", bytes_text(job.rank_bytes), job.on_gpus() ? " of the host's memory" : "",
          "; the memory asked for is 5 % more, and ", besides_plan_mib(job), " MiB per rank", text_of(job.text_bytes),
          ".\n# ", chosen.submit,
          " submits it. What it does on signals and at the end of its time, and the variables that it takes: jobscripts/ of "
          "shoal.\n\n"),
      chosen.directive);
  std::string preset;
  for (const std::string& option : job.options) preset += (preset.empty() ? "" : " ") + shell_word(option);
  script.replace("program=", text("program=", shell_word(job.program), " input=", shell_word(job.deck),
                                  " gpus=", job.on_gpus() ? "yes" : "no", " preset=(", preset, ")"));
  if (!job.out.empty()) script.replace(chosen.out, text(chosen.out, "${SHOAL_OUT:-", shell_word(job.out), "}"));
  return script.text();
}

io::OwnKind own_job_script() {
  return {"script that `shoal jobscript` wrote", [](const fs::path& file) {
            std::ifstream in(file);
            std::string line;
            for (int number = 0; number < 3; ++number) std::getline(in, line);
            return line.starts_with(mark);
          }};
}

}  // namespace shoal::app
