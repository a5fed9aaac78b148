#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `shoal study` with a real SLURM on two virtual nodes: it submits the points of a study, is killed while it waits or while it
# submits, and goes on: no job is submitted twice, and the results of all are collected. Then the same with an emulated PBS.
# shellcheck source=common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
requires ip:iproute2 unshare:util-linux slurmctld:slurm-wlm slurmd:slurm-wlm sbatch:slurm-wlm munged:munge cc:gcc
up vslurm
cat >>"$SHOAL_DECK" <<'DECK'
[study]
nodes          = 1, 2
ranks_per_node = 2
strategies     = stage 0, stage 3
time           = 00:05:00
DECK

# study NAME [OPTION...]: the study, in a directory of its own. Its output is $work/NAME.out.
study() {
  local name=$1
  shift
  (cd "$work" && timeout 150 "${run_in[@]}" "$SHOAL" study "$SHOAL_DECK" --output.dir="$work/$name" --poll 0.5 "$@") \
    >"$work/$name.out" 2>&1
}
# field DIR NAME: this field of every point, in one line.
field() {
  "$python" -c 'import json, sys
print(*(point[sys.argv[2]] for point in json.load(open(sys.argv[1] + "/study.json"))["points"]))' "$work/$1" "$2"
}
# expect WORDS WANTED WHAT
expect() { [[ $1 == "$2" ]] || fail "$3: $1, not $2"; }
jobs_of_slurm() { "$cluster/vslurm" exec scontrol --oneliner show job | grep -c JobId=; }

run_in=("$cluster/vslurm" exec)
unset SHOAL # the scripts of a study name their program
SHOAL=${SHOAL_BINARY:-$source_root/build/shoal}
study run --study.system=slurm --wait=false || fail "submitting ended with status $?"
submitted=$(field run job)
expect "$(wc -w <<<"$submitted")" 4 "jobs"
# Killed while it waits. The next study finds the jobs in its results file.
study run --study.system=slurm &
until grep -q ' queued' "$work/run.out" 2>/dev/null; do sleep 0.1; kill -0 $! || fail "the study did not wait for its jobs"; done
mapfile -t waiting < <(pgrep -f -- "--output.dir=$work/run ") # the program, and what started it
kill -KILL "${waiting[@]}"
wait $! 2>/dev/null || true
study run --study.system=slurm || fail "the study that goes on ended with status $?"
expect "$(field run state)" "done done done done" "states"
expect "$(field run job)" "$submitted" "jobs of the study that goes on"
expect "$(jobs_of_slurm)" 4 "jobs that SLURM has seen"
for strategy in 0 3; do check_run "$work/run/stage_$strategy-n2x2-b2-g8-r1" 4; done
study run --study.system=slurm || fail "a study with nothing left to do ended with status $?"
expect "$(jobs_of_slurm)" 4 "jobs after a study with nothing left to do"

# Killed after SLURM has taken a job, and before its number is noted: the job is found by its name.
mkdir "$work/kills"
cat >"$work/kills/sbatch" <<KILLS
#!/usr/bin/env bash
"$(command -v sbatch)" "\$@" >/dev/null && kill -KILL \$PPID
KILLS
chmod +x "$work/kills/sbatch"
run_in=("$cluster/vslurm" exec env PATH="$work/kills:$PATH")
study killed --study.system=slurm --study.nodes=2 --study.strategies=deck && fail "the study was not killed"
run_in=("$cluster/vslurm" exec)
expect "$(field killed state)" "submitting" "state of the study that was killed"
study killed --study.system=slurm --study.nodes=2 --study.strategies=deck || fail "the study that goes on ended with status $?"
expect "$(field killed state)" "done" "state after a submission was interrupted"
expect "$(jobs_of_slurm)" 5 "jobs of a study that was killed while it submitted"

# A job that fails is named, and not submitted again unless asked for.
status=0
SHOAL_SRUN_MPI=none study fails --study.system=slurm --study.nodes=2 --study.strategies=deck || status=$?
expect "$status" 1 "status of a study with a failed job"
grep -q 'failed.*SLURM_NTASKS' "$work/fails.out" || fail "no line says why the job failed"
expect "$(jobs_of_slurm)" 6 "jobs with one that fails"
study fails --study.system=slurm --study.nodes=2 --study.strategies=deck && fail "a failed point was forgotten"
expect "$(jobs_of_slurm)" 6 "jobs after a failed point was left alone"
study fails --study.system=slurm --study.nodes=2 --study.strategies=deck --retry || fail "--retry ended with status $?"
expect "$(field fails state)" "done" "state after --retry"

# PBS: its commands are stand-ins that answer in PBS's words.
mkdir "$work/bin"
cat >"$work/bin/qsub" <<STAND_IN
#!/usr/bin/env bash
exec "$cluster/pbs-sim" qsub "\$@"
STAND_IN
cat >"$work/bin/qstat" <<STAND_IN
#!$python
import json, subprocess, sys
asked = subprocess.run(["$cluster/pbs-sim", "qstat", "-f", sys.argv[-1]], capture_output=True, text=True)
if asked.returncode != 0 or json.loads(asked.stdout)["state"] == "F":
    print("qstat:", sys.argv[-1], "Job has finished, use -x or -H to obtain historical job information", file=sys.stderr)
    sys.exit(35)
print("Job Id:", sys.argv[-1])
print("    job_state = R")
STAND_IN
cat >"$work/bin/qselect" <<STAND_IN
#!/usr/bin/env bash
"$cluster/pbs-sim" qstat 2>/dev/null | while read -r job name state _; do
  if [[ \$name == "\$2" && \$state != F ]]; then echo "\$job"; fi
done
STAND_IN
chmod +x "$work/bin/qsub" "$work/bin/qstat" "$work/bin/qselect"
run_in=(env PATH="$work/bin:$PATH")
study pbs --study.system=pbs --study.strategies="stage 3" --wait=false || fail "submitting to PBS ended with status $?"
submitted=$(field pbs job)
study pbs --study.system=pbs --study.strategies="stage 3" || fail "the study with PBS ended with status $?"
expect "$(field pbs state)" "done done" "states with PBS"
expect "$(field pbs job)" "$submitted" "jobs with PBS"
check_run "$work/pbs/stage_3-n2x2-b2-g8-r1" 4

# Killed after PBS has taken a job.
mv "$work/bin/qsub" "$work/bin/takes"
cat >"$work/bin/qsub" <<KILLS
#!/usr/bin/env bash
"$work/bin/takes" "\$@" >/dev/null && kill -KILL \$PPID
KILLS
chmod +x "$work/bin/qsub"
study pbs_killed --study.system=pbs --study.nodes=2 --study.strategies=deck && fail "the study with PBS was not killed"
mv "$work/bin/takes" "$work/bin/qsub"
study pbs_killed --study.system=pbs --study.nodes=2 --study.strategies=deck || fail "going on with PBS ended with status $?"
expect "$(field pbs_killed state)" "done" "state after a submission to PBS was interrupted"
expect "$("$cluster/pbs-sim" qstat | wc -l)" 3 "jobs that PBS has seen"
echo "passed"
