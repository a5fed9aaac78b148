// SPDX-License-Identifier: Apache-2.0
// The job scripts that a program for GPUs writes, and those of a program for processors beside them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "app/jobscript/jobscript.hpp"

namespace shoal::app {
namespace of_gpu_script_test {

using device::DeviceKind;
using testing::HasSubstr;
using testing::Not;

Job job(DeviceKind device) {
  Job job;
  job.nodes = 3;
  job.ranks_per_node = 8;
  job.cores_per_rank = 12;
  job.program = "/p/shoal";
  job.deck = "/d/a.cfg";
  job.device = device;
  return job;
}

TEST(GpuScript, SlurmIsAskedForAGpuPerRank) {
  const std::string script = script_of(job(DeviceKind::cuda), System::slurm);
  EXPECT_THAT(script, HasSubstr("\n#SBATCH --nodes=3\n#SBATCH --ntasks-per-node=8\n#SBATCH --cpus-per-task=12\n"
                                "#SBATCH --gpus-per-node=8\n#SBATCH --mem=16384M\n"));
  EXPECT_THAT(script, HasSubstr("\nprogram=/p/shoal input=/d/a.cfg gpus=yes preset=()\n"));
}

TEST(GpuScript, PbsIsAskedForAGpuPerRank) {
  const std::string script = script_of(job(DeviceKind::cuda), System::pbs);
  EXPECT_THAT(script, HasSubstr("\n#PBS -l select=3:ncpus=96:ngpus=8:mpiprocs=8:ompthreads=12:mem=16384mb\n"));
  EXPECT_THAT(script, HasSubstr("\nprogram=/p/shoal input=/d/a.cfg gpus=yes preset=()\n"));
}

TEST(GpuScript, OthersAskForNone) {
  for (const DeviceKind device : {DeviceKind::host, DeviceKind::simulated}) {
    for (const System system : {System::slurm, System::pbs}) {
      const std::string script = script_of(job(device), system);
      EXPECT_THAT(script, Not(HasSubstr("\n#SBATCH --gpus")));
      EXPECT_THAT(script, Not(HasSubstr("select=3:ncpus=96:ngpus")));
      EXPECT_THAT(script, HasSubstr(" gpus=no preset=()\n"));
      EXPECT_THAT(script, HasSubstr("=2048"));  // 8 ranks x 256 MiB
    }
  }
}

}  // namespace of_gpu_script_test
}  // namespace shoal::app
