# SPDX-License-Identifier: Apache-2.0
"""A job of jobscripts/slurm.sh on a real SLURM of three virtual nodes, with 4 ranks on two of them. Every minute or two
something ends it: a rank, its launcher or a node is killed or stopped, a signal comes, the time is over. What it has made at the
end has the bits of a run without faults (on one rank, which has the same bits as four and is sooner done).

usage: long_run_test.py [MINUTES] (30). SHOAL_SEED: repeats the draws of an earlier run, which prints its seed.
SHOAL_FAULT_EVERY: seconds between recovery and the next fault, "60,120". SHOAL_FAULT_KINDS: these alone, separated by commas
(methods of Faults).

Effective is the time of the steps that were kept (sum of step_s in the final metrics.jsonl), as a share of the time in which
the job held nodes: what a job waits in the queue is the batch system's (here 20 s after each requeue, see the cluster's
README). It is printed, with the share of all the time, and not checked: it depends on what else the machine does. The aim is
90 %."""

import contextlib
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

SOURCE = pathlib.Path(os.environ.get("SHOAL_SOURCE", pathlib.Path(__file__).resolve().parents[2]))
BINARY = os.environ.get("SHOAL_BINARY", str(SOURCE / "build" / "shoal"))
CLUSTER = pathlib.Path(os.environ.get("SHOAL_SHARED", SOURCE.parent / "shared")) / "cluster"
MINUTES = float(sys.argv[1]) if len(sys.argv) > 1 else 30
SEED = int(os.environ.get("SHOAL_SEED") or random.SystemRandom().randrange(10**6))
EVERY_S = tuple(map(float, os.environ.get("SHOAL_FAULT_EVERY", "60,120").split(",")))
NODES, RANKS = ("node1", "node2", "node3"), 4
RECOVERY_S = 180  # after a fault the run must make steps again within this time
ENDING_S = 120
CLOSING_S = 2  # at its end rank 0 takes memory for all losses as text, for summary.json
MOST_GROWTH = 8 << 20  # bytes by which the memory of a rank may differ between restarts
STEP_BYTES = 32  # that rank 0 keeps of every step for summary.json; steps take a millisecond here
# checkpoint.every by Young's rule (1974): the square root of twice the time of a save (some 7 ms) by that between faults (90 s)
# is about a second, here 1000 steps. comm.timeout: two seconds after SLURM's KillWait (5 s here) srun ends the ranks that wait for
# a dead one; they must have found out, and ended, before.
DECK = """
[model]
n_layer    = 2
n_head     = 2
n_embd     = 32
block_size = 32
[data]
source       = synthetic
val_fraction = 0
[batch]
micro  = 2
global = 8
[optimizer]
lr = 1e-4
[train]
steps     = 100000000
seed      = 3
log_every = 1000
[checkpoint]
every = 1000
keep  = 2
async = true
[trace]
level = steps
interval = 2000
[comm]
timeout = 4
"""


def log(*words):
    print(f"{time.strftime('%H:%M:%S')} {' '.join(map(str, words))}", flush=True)


def run(*words, timeout=60, check=True):
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=timeout)
    if check and done.returncode != 0:
        raise RuntimeError(f"{words} ended with {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout


class Job:
    """One job, and what is seen of it."""

    def __init__(self, work):
        self.work, self.out = work, work / "run"
        self.begun, self.held, self.polled, self.state = time.monotonic(), 0.0, time.monotonic(), "PENDING"
        self.memory = {}  # by process: its rank, its begin, and now and then the time since then and its own resident bytes
        options = ["--time=60", "--parsable", f"--output={work}/job.log", f"--chdir={work}"]
        environment = [f"SHOAL={BINARY}", f"SHOAL_DECK={work}/deck.cfg", f"SHOAL_OUT={self.out}"]
        environment += ["SHOAL_COMM_WAIT=sleep", "SHOAL_ANSWER=5"]
        self.number = self.slurm("env", *environment, "sbatch", *options, SOURCE / "jobscripts" / "slurm.sh").strip()

    @staticmethod
    def slurm(*words, check=True):
        return run(CLUSTER / "vslurm", "exec", *words, check=check)

    def poll(self):
        """Asks SLURM for the state of the job, and /proc for the memory of its ranks."""
        record = self.slurm("scontrol", "show", "job", self.number, check=False)
        found = re.search(r"JobState=(\S+)", record)
        now = time.monotonic()
        if self.state == "RUNNING":
            self.held += now - self.polled
        self.polled, self.state = now, found.group(1) if found else self.state
        for number, rank in self.ranks().items():
            with contextlib.suppress(OSError, AttributeError):
                status = pathlib.Path(f"/proc/{number}/status").read_text()
                # Not the pages of files, libraries mostly: how many of them are mapped is the kernel's choice.
                own = sum(
                    int(re.search(rf"{name}:\s+(\d+) kB", status).group(1)) << 10 for name in ("RssAnon", "RssShmem")
                )
                seen = self.memory.setdefault(number, {"rank": rank, "begun": now, "resident": []})
                seen["resident"].append((now - seen["begun"], own))

    def watch(self, seconds, until=lambda: False):
        """Polls for so long, or until something is so. Returns whether it is."""
        bound = time.monotonic() + seconds
        while time.monotonic() < bound:
            if until():
                return True
            self.poll()
            time.sleep(0.5)
        return until()

    def processes(self, accepts):
        found = {}
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                words = (process / "cmdline").read_bytes().decode(errors="replace").split("\0")
                if accepts(words):
                    found[int(process.name)] = process
        return found

    def ranks(self):
        """Process number and rank. The environment of a task names its rank and its node."""
        found = self.processes(lambda words: words[0] == BINARY and f"--output.dir={self.out}" in words)
        return {number: int(self.variable(number, "SLURM_PROCID") or -1) for number in found}

    @staticmethod
    def variable(number, name):
        with contextlib.suppress(OSError):
            text = pathlib.Path(f"/proc/{number}/environ").read_bytes().decode(errors="replace")
            found = re.search(rf"(?:^|\0){name}=([^\0]*)", text)
            return found.group(1) if found else None
        return None

    def steps(self):
        """Lines of metrics.jsonl."""
        with contextlib.suppress(OSError):
            return (self.out / "metrics.jsonl").read_bytes().count(b"\n")
        return 0


class Faults:
    """Each method is a kind of fault. It returns what it has done."""

    kinds = ("rank", "all_ranks", "srun", "stepd", "node_lost", "node_stopped", "shell_usr1", "ranks_usr2", "one_rank_term",
             "requeue", "time_limit")  # fmt: skip

    def __init__(self, job, draw):
        self.job, self.draw, self.lost = job, draw, []
        if "SHOAL_FAULT_KINDS" in os.environ:
            self.kinds = os.environ["SHOAL_FAULT_KINDS"].split(",")

    def kill(self, numbers, how=signal.SIGKILL):
        for number in numbers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(number, how)

    def rank(self):
        number, rank = self.draw.choice(sorted(self.job.ranks().items()))
        self.kill([number])
        return f"SIGKILL to rank {rank}"

    def all_ranks(self):
        self.kill(self.job.ranks())
        return "SIGKILL to all ranks"

    def srun(self):
        self.kill(self.job.processes(lambda words: words[0] == "srun" and f"--output.dir={self.job.out}" in words))
        return "SIGKILL to srun"

    def stepd(self):
        parents = {
            int(pathlib.Path(f"/proc/{rank}/stat").read_text().rpartition(")")[2].split()[1])
            for rank in self.job.ranks()
        }
        self.kill([self.draw.choice(sorted(parents))])
        return "SIGKILL to the slurmstepd of a node's ranks"

    def node_of_a_rank(self):
        return self.job.variable(self.draw.choice(sorted(self.job.ranks())), "SLURMD_NODENAME")

    def node_lost(self):
        node = self.node_of_a_rank()
        run(CLUSTER / "vslurm", "fail", node)
        self.lost.append(node)
        return f"{node} has no power"

    def node_stopped(self):
        node = self.node_of_a_rank()
        self.kill([n for n in self.job.ranks() if self.job.variable(n, "SLURMD_NODENAME") == node], signal.SIGSTOP)
        return f"SIGSTOP to the ranks of {node}"

    def shell_usr1(self):
        self.job.slurm("scancel", "--batch", "--signal=USR1", self.job.number)
        return "SIGUSR1 to the job script"

    def ranks_usr2(self):
        self.job.slurm("scancel", "--signal=USR2", self.job.number)
        return "SIGUSR2 to the ranks"

    def one_rank_term(self):
        number, rank = self.draw.choice(sorted(self.job.ranks().items()))
        self.kill([number], signal.SIGTERM)
        return f"SIGTERM to rank {rank}"

    def requeue(self):
        self.job.slurm("scontrol", "requeue", self.job.number)
        return "scontrol requeue"

    def time_limit(self):
        """The warning comes 120 s before the limit: at once, if a minute is left."""
        record = self.job.slurm("scontrol", "show", "job", self.job.number)
        clock = re.search(r"RunTime=(?:(\d+)-)?(\d+):(\d+):(\d+)", record)
        days, hours, minutes, _ = (int(part or 0) for part in clock.groups())
        limit = (days * 24 + hours) * 60 + minutes + 2
        self.job.slurm("scontrol", "update", f"JobId={self.job.number}", f"TimeLimit={limit}")
        return f"a time limit of {limit} min"

    def mend(self):
        """Boots lost nodes, and gives the job its time back."""
        while self.lost:
            run(CLUSTER / "vslurm", "restore", self.lost.pop(), timeout=120)
        self.job.slurm("scontrol", "update", f"JobId={self.job.number}", "TimeLimit=60", check=False)


def require(holds, *words):
    if not holds:
        raise AssertionError(" ".join(map(str, words)))


def await_recovery(job, before):
    """Waits until other ranks than these make steps. metrics.jsonl is rewritten up to the checkpoint, and grows from there."""

    def others():
        return bool(job.ranks()) and not before & set(job.ranks())

    bound = time.monotonic() + RECOVERY_S
    while not others():
        require(time.monotonic() < bound, "no new ranks after this fault; the job is", job.state)
        require(job.state not in ("COMPLETED", "FAILED", "CANCELLED"), "the job is", job.state)
        job.watch(1, others)
    begun = time.time()
    written = job.out / "metrics.jsonl"
    require(job.watch(RECOVERY_S, lambda: others() and written.stat().st_mtime > begun), "no steps after this fault")
    steps = job.steps()
    require(job.watch(RECOVERY_S, lambda: job.steps() != steps), "no more steps after this fault")


def let_it_suffer(job, draw):
    """Faults until the time is over. Returns the number of faults."""
    faults, end, kinds, count = Faults(job, draw), job.begun + 60 * MINUTES, [], 0
    made = job.watch(RECOVERY_S, lambda: any((job.out / "checkpoints").glob("step_*.h5")))
    require(made, "the job made no checkpoint")
    while True:
        pause = draw.uniform(*EVERY_S)
        job.watch(min(pause, max(0, end - time.monotonic())))
        require(job.state == "RUNNING", "the job is", job.state)
        if time.monotonic() + 2 * EVERY_S[0] / 3 > end:  # too late for a recovery
            break
        kinds = kinds or draw.sample(faults.kinds, len(faults.kinds))
        ranks, steps = set(job.ranks()), job.steps()
        begun, held, count = time.monotonic(), job.held, count + 1
        what = getattr(faults, kinds.pop())()
        log(f"fault {count} after step {steps}: {what}")
        await_recovery(job, ranks)
        log(
            f"  makes steps again after {time.monotonic() - begun:.0f} s, {job.held - held:.0f} s of which the job held nodes"
        )
        faults.mend()
    return count


def print_effective(job, kept, wall):
    useful = sum(line["step_s"] for line in kept)
    log(f"{len(kept)} steps were kept: {useful:.0f} s of the {job.held:.0f} s in which the job held nodes "
        f"({useful / job.held:.1%} effective), and of {wall:.0f} s in all ({useful / wall:.1%})")  # fmt: skip


def check_waits(job, _):
    """srun does not wait for ranks whose run has ended."""
    lines = (job.work / "job.log").read_text().splitlines()
    at = [i for i, line in enumerate(lines) if "Timed out waiting for job step to complete" in line]
    before = [line for i in at for line in [*lines[max(0, i - 8) : i + 1], "..."]]
    require(not at, "srun waited", len(at), "times for ranks whose run had ended:", *("\n  " + line for line in before))


def check_memory(job, kept):
    """No rank's memory grows, neither within a process nor from one restart to the next, but for the reports of steps."""
    lived = [seen for seen in job.memory.values() if seen["resident"][-1][0] > 20]
    for seen in lived:
        end = seen["resident"][-1][0] - CLOSING_S
        seen["resident"] = [(after, own) for after, own in seen["resident"] if after < end]
    growth = []
    for seen in lived:
        settled = [size for after, size in seen["resident"] if after > 5]
        quarter = max(1, len(settled) // 4)
        growth.append((max(settled[-quarter:]) - max(settled[:quarter]), seen["resident"][-1][0]))
    worst = max(growth, default=(0, 0))
    most = MOST_GROWTH + STEP_BYTES * len(kept) / job.held * max((after for _, after in growth), default=0)
    log(f"memory: {len(lived)} processes of ranks lived longer than 20 s; the largest growth within one is "
        f"{worst[0] / 2**20:.2f} MiB in {worst[1]:.0f} s")  # fmt: skip
    for rank in range(RANKS):
        peaks = [max(own for _, own in seen["resident"]) for seen in lived if seen["rank"] == rank]
        if not peaks:
            continue
        log(f"  rank {rank}: peaks of {len(peaks)} processes, MiB: {' '.join(f'{peak / 2**20:.1f}' for peak in peaks)}")
        third = max(1, len(peaks) // 3)
        grown = sorted(peaks[-third:])[third // 2] - sorted(peaks[:third])[third // 2]
        require(grown < most, "rank", rank, "takes", grown, "bytes more after restarts")
    require(worst[0] < most, "a rank's memory grew by", worst[0], "bytes")


def check_leftovers(job, _):
    left = [path.name for path in job.out.rglob("*") if re.search(r"partial|lock|probe|\.new", path.name)]
    require(not left, "files were left:", left)
    complete = sorted(path.name for path in (job.out / "checkpoints").iterdir())
    require(len(complete) == 2, "not the two checkpoints that are kept:", complete)
    for node in NODES:
        shared = run(CLUSTER / "vcluster", "exec", node, "ls", "-A", "/dev/shm").split()
        segments = [
            line for line in run(CLUSTER / "vcluster", "exec", node, "ipcs", "-m").splitlines() if line[:2] == "0x"
        ]
        require(not shared and not segments, node, "has shared memory left:", shared, segments)
    require(not job.ranks(), "ranks were left")


def check_bits(job, kept):
    work, steps = job.work, len(kept)
    require([line["step"] for line in kept] == list(range(1, steps + 1)), "the steps are not all there once")
    summary = json.loads((job.out / "summary.json").read_text())
    log(f"a run of {steps} steps without faults begins")
    environment = {**os.environ, "SHOAL_COMM_WAIT": "sleep", "OMP_NUM_THREADS": "1"}
    straight = work / "straight"
    words = [BINARY, "train", work / "deck.cfg", f"--train.steps={steps}", "--checkpoint.every=0", f"--output.dir={straight}"]  # fmt: skip
    with (work / "straight.log").open("w") as out:
        subprocess.run(
            list(map(str, words)),
            env=environment,
            stdout=out,
            stderr=out,
            check=True,
            timeout=60 * max(20, 2 * MINUTES),
        )
    reference = [json.loads(line) for line in (straight / "metrics.jsonl").open()]
    for mine, other in zip(kept, reference, strict=True):
        for name in ("loss", "grad_norm"):
            require(mine[name] == other[name], "step", mine["step"], "has another", name, mine[name], other[name])
    other = json.loads((straight / "summary.json").read_text())
    require(summary["params_checksum"] == other["params_checksum"], "the parameters have other bits")
    log(f"the losses and norms of {steps} steps and the parameters have the same bits ({other['params_checksum']})")


def long_run(work):
    (work / "deck.cfg").write_text(DECK)
    run(CLUSTER / "vslurm", "up", len(NODES), timeout=180)
    draw, job = random.Random(SEED), Job(work)
    count = let_it_suffer(job, draw)
    job.slurm("scancel", job.number)
    require(
        job.watch(ENDING_S, lambda: job.state == "CANCELLED" and not job.ranks()), "the job did not end:", job.state
    )
    wall = time.monotonic() - job.begun
    record = job.slurm("scontrol", "show", "job", job.number)
    kept = [json.loads(line) for line in (job.out / "metrics.jsonl").open()]
    text = (work / "job.log").read_text()
    log(f"{count} faults in {wall / 60:.1f} min; {re.search('Restarts=[0-9]+', record).group()} by SLURM, "
        f"{text.count('; it goes on from ')} restarts within a job")  # fmt: skip
    print_effective(job, kept, wall)
    failed = []
    for check in (check_waits, check_memory, check_leftovers, check_bits):
        try:
            check(job, kept)
        except AssertionError as failure:  # a run of half an hour is worth every check
            log(failure)
            failed.append(str(failure))
    require(not failed, "; ".join(failed))


def main():
    reasons = [] if CLUSTER.is_dir() else [f"no virtual cluster: {CLUSTER} is missing (set SHOAL_SHARED)"]
    reasons += [] if os.geteuid() == 0 else ["a virtual cluster needs root"]
    os.environ["PATH"] += ":/usr/sbin"
    tools = ("ip", "unshare", "slurmctld", "slurmd", "sbatch", "munged", "cc", "mpiexec")
    reasons += [f"{tool} is not installed" for tool in tools if shutil.which(tool) is None]
    if reasons:
        print("SKIPPED:", "; ".join(reasons))
        sys.exit(77)
    print(f"SHOAL_SEED={SEED}", flush=True)
    os.environ["VCLUSTER_STATE"] = f"/run/shoal-test-{os.getpid()}"
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    work = pathlib.Path(tempfile.mkdtemp(prefix="shoal-long-"))
    try:
        long_run(work)
        print("passed")
    except BaseException:
        for name in ("job.log", "straight.log"):
            with contextlib.suppress(OSError):
                print(f"--- the end of {name}", *(work / name).read_text().splitlines()[-60:], sep="\n")
        raise
    finally:
        run(CLUSTER / "vslurm", "down", timeout=120, check=False)
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    main()
