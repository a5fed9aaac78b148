#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Submits jobscripts/pbs.sh, and what `shoal jobscript` makes of it, to an emulated PBS Professional on two virtual nodes. Jobs
# stop in time, submit the next one, and stop on signals.
# shellcheck source=common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
requires ip:iproute2 unshare:util-linux mpiexec:mpich cc:gcc
up vcluster

# submit NAME [OPTION...]: runs one job to its end. Its log is $work/NAME.log; its exit status is returned.
submit() {
  local name=$1
  shift
  (cd "$work" && timeout 90 "$cluster/pbs-sim" qsub -W block=true -o "$work/$name.log" \
    -v "SHOAL,SHOAL_DECK,SHOAL_COMM_WAIT,SHOAL_OUT=$work/$name,SHOAL_OPTIONS=$*" "$source_root/jobscripts/pbs.sh") >/dev/null
}

submit run || fail "the job ended with status $?"
check_run "$work/run" 4

status=0
submit refused --train.steps=3 --train.stepz=3 || status=$?
[[ $status -eq 2 ]] || fail "an unknown option ended the job with status $status, not 2"
grep -q 'train.stepz' "$work/refused.log" || fail "no line names train.stepz"

# What `shoal jobscript` writes. It names the program and the deck itself.
"$SHOAL" jobscript "$SHOAL_DECK" --system pbs --nodes 2 --ranks-per-node 2 --time 00:01:00 --output "$work/written.sh"
(cd "$work" && timeout 90 "$cluster/pbs-sim" qsub -W block=true -o "$work/written.log" \
  -v "SHOAL_COMM_WAIT,SHOAL_OUT=$work/written" written.sh) >/dev/null || fail "the script of shoal jobscript ended with status $?"
check_run "$work/written" 4

# Commands of PBS for the jobs. pbs-sim does not answer in PBS's words, and jobs do not have its commands in their PATH.
mkdir "$work/bin"
cat >"$work/bin/qsub" <<STAND_IN
#!/usr/bin/env bash
for word in "\$@"; do [[ \${before:-} == -v ]] && word+=,PATH; words+=("\$word"); before=\$word; done
exec "$cluster/pbs-sim" qsub -o "$work/chain.\$(date +%s%N).log" "\${words[@]}" | tee -a "$work/submitted"
STAND_IN
cat >"$work/bin/qstat" <<STAND_IN
#!$python
import json, os, re, subprocess, sys, time
job = json.loads(subprocess.check_output(["$cluster/pbs-sim", "qstat", "-f", sys.argv[-1]]))
began = os.stat(os.path.join("$VCLUSTER_STATE", "pbs", job["id"], "nodefile")).st_mtime
print("Job Id:", job["id"])
print("    stime =", time.ctime(began))
print("    Resource_List.select =", job["select"])
for name in ("ncpus", "ngpus"):
    chunks = re.findall(r"(?:^|\+)(\d*)[^+]*\b%s=(\d+)" % name, job["select"])
    print("    Resource_List.%s =" % name, sum(int(count or 1) * int(each) for count, each in chunks))
print("    Resource_List.walltime =", time.strftime("%H:%M:%S", time.gmtime(job["walltime"])))
STAND_IN
chmod +x "$work/bin/qsub" "$work/bin/qstat"

# With GPUs. The cores of a rank are its part of ncpus, whatever ompthreads says.
program_for_gpus "$work/for_gpus"
(cd "$work" && SHOAL=$work/for_gpus PATH=$work/bin:$PATH timeout 90 "$cluster/pbs-sim" qsub -W block=true -o "$work/gpus.log" \
  -l select=2:ncpus=2:ngpus=2:mpiprocs=2:ompthreads=2 -v "PATH,SHOAL,SHOAL_DECK,SHOAL_COMM_WAIT,SHOAL_OUT=$work/gpus" \
  "$source_root/jobscripts/pbs.sh") >/dev/null || fail "the job with GPUs ended with status $?"
check_run "$work/gpus" 4
[[ $(grep -cx 'threads: 1, GPUs: none, cores: 1' "$work/gpus.log") -eq 4 ]] || fail "not 4 ranks for GPUs with a core and a thread"

# next_job COUNT: waits until the chain has submitted its job number COUNT, and prints its id.
next_job() {
  local end=$((SECONDS + 60))
  until [[ -f $work/submitted && $(wc -l <"$work/submitted") -ge $1 ]]; do
    [[ $SECONDS -lt $end ]] || fail "the chain did not submit its job number $1"
    sleep 0.2
  done
  sed -n "$1p" "$work/submitted"
}
# trains ID [NAME]: waits until steps of this job are in the metrics.
trains() {
  local end=$((SECONDS + 60)) metrics=$work/${2:-chain}/metrics.jsonl before
  before=$(wc -l <"$metrics" 2>/dev/null || echo 0)
  until [[ $(wc -l <"$metrics" 2>/dev/null || echo 0) -gt $before ]]; do
    [[ $SECONDS -lt $end ]] || fail "job $1 makes no steps"
    sleep 0.2
  done
}
# ended_75 ID REASON: the job must end with 75, stopped for this reason.
ended_75() {
  local status=0
  "$cluster/pbs-sim" wait "$1" 60 || status=$?
  [[ $status -eq 75 ]] || fail "job $1 ended with status $status, not 75"
  grep -hq "stopped by $2 after step" "$work"/chain.*.log || fail "no job was stopped by $2"
}
export PATH=$work/bin:$PATH
(cd "$work" && qsub -l walltime=20 -v "SHOAL,SHOAL_DECK,SHOAL_COMM_WAIT,SHOAL_OUT=$work/chain,SHOAL_OPTIONS=--train.steps=1000000" \
  "$source_root/jobscripts/pbs.sh") >/dev/null
ended_75 "$(next_job 1)" train.stop_after # in time: PBS would kill it after 20 s
job=$(next_job 2)
trains "$job"
"$cluster/pbs-sim" qsig -s USR1 "$job"
ended_75 "$job" SIGUSR1
job=$(next_job 3)
trains "$job"
"$cluster/pbs-sim" qdel "$job"
ended_75 "$job" SIGTERM
[[ $(wc -l <"$work/submitted") -eq 3 ]] || fail "a deleted job was submitted again"

# A rank dies, and then the launcher: the job goes on from its last checkpoint each time. $VCLUSTER_STATE/pbs has its log.
job=$(cd "$work" && "$cluster/pbs-sim" qsub -o "$work/chain.deaths.log" -v \
  "SHOAL,SHOAL_DECK,SHOAL_COMM_WAIT,SHOAL_OUT=$work/deaths,SHOAL_OPTIONS=--train.steps=1000000 --checkpoint.every=200" \
  "$source_root/jobscripts/pbs.sh")
goes_on() { grep -c 'it goes on from' "$VCLUSTER_STATE/pbs/$job/OU" || true; }
count=0
for pattern in "^$SHOAL train .*--output.dir=$work/deaths" "^mpiexec .*--output.dir=$work/deaths"; do
  end=$((SECONDS + 60))
  until compgen -G "$work/deaths/checkpoints/step_*.h5" >/dev/null; do
    [[ $SECONDS -lt $end ]] || fail "job $job makes no checkpoint"
    sleep 0.2
  done
  trains "$job" deaths
  pkill -KILL --newest -f -- "$pattern" || fail "no process is $pattern"
  count=$((count + 1))
  end=$((SECONDS + 60))
  until [[ $(goes_on) -eq $count ]]; do
    [[ $SECONDS -lt $end ]] || fail "job $job does not go on after the death of $pattern"
    sleep 0.2
  done
done
trains "$job" deaths
"$cluster/pbs-sim" qdel "$job"
ended_75 "$job" SIGTERM
echo "passed"
