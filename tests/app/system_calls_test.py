# SPDX-License-Identifier: Apache-2.0
"""What each rank asks of the file system, counted by strace: thousands of ranks must not ask one server for the same."""

import itertools
import json
import re
import shutil
import subprocess
from collections import Counter

from program import BINARY, MPIEXEC, SMALL, Program, main, sanitized, skip, trajectory

RANKS = 4
CALLS = "%file,fstat,getdents64,read,pread64,pwrite64,fsync,fdatasync,ftruncate,fallocate,sync_file_range"
SAMPLE_BYTES = 2 * (SMALL["model"]["block_size"] + 1)


def traced():
    """Skips the test if strace is missing, or may not trace."""
    if shutil.which("strace") is None:
        skip("strace is not installed; system calls are not counted")
    if sanitized():
        skip("the leak sanitizer does not run under strace; system calls are not counted")
    if subprocess.run(["strace", "-o", "/dev/null", "true"], capture_output=True, check=False).returncode != 0:
        skip("strace may not trace here; system calls are not counted")


def named(arguments):
    """True if the call has the name of a file, and not only its descriptor."""
    return '"/' in arguments


class SystemCalls(Program):
    def setUp(self):
        traced()
        super().setUp()
        self.text = self.dir / "text.txt"
        self.text.write_text("".join(f"{i} times {i} is {i * i}.\n" for i in range(300)))
        self.tokens = self.dir / "tokens.h5"
        done = self.shoal("tokenize", "--tokenizer", "chars", self.text, self.tokens)
        self.assertEqual(done.returncode, 0, done.stderr)

    def run_traced(self, *args, ranks="none", more=""):
        """Trains. more: further options of strace for these ranks (a pattern of the shell). Returns the process and, by rank, the calls in their order:
        (name of the call, its arguments with the paths of descriptors)."""
        deck = self.deck({**SMALL, "model": {**SMALL["model"], "vocab_size": 0}}, trace={"level": "off"})
        program = (
            f'case $PMI_RANK in {ranks}) more="{more}";; esac; '
            f'exec strace -f -y -qq -e trace={CALLS} $more -o {self.dir}/calls.$PMI_RANK {BINARY} "$@"'
        )
        done = subprocess.run(
            [MPIEXEC, "-n", str(RANKS), "sh", "-c", program, "sh", "train", str(deck), f"--output.dir={self.dir / 'out'}",
             "--output.overwrite", *map(str, args)],
            capture_output=True, text=True, timeout=100, env=self.environment(RANKS), cwd=self.dir, check=False
        )  # fmt: skip
        calls = []
        for rank in range(RANKS):
            lines = (self.dir / f"calls.{rank}").read_text(errors="replace").splitlines()
            found = (re.match(r"\d+ +(\w+)\((.*)", line) for line in lines)
            calls.append([(call[1], call[2]) for call in found if call and call[1] != "execve"])
        return done, calls

    def summary(self, done):
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return json.loads((self.dir / "out/summary.json").read_text())

    def test_one_rank_reads_what_all_need(self):
        """Others open a tokens file once, and read their own samples; of text they open nothing."""
        done, calls = self.run_traced(f"--data.source={self.tokens}", "--train.eval_batches=1")
        of_tokens = self.summary(done)
        for rank in range(1, RANKS):
            own = [(call, rest) for call, rest in calls[rank] if "tokens.h5" in rest]
            self.assertEqual(own[0][0], "openat")
            self.assertEqual({call for call, _ in own[1:]}, {"pread64"}, own)
            self.assertGreaterEqual(len(own), 1 + 6 * 8 // RANKS, "samples of 6 steps")
            for _, rest in own[1:]:
                self.assertRegex(rest, rf", {SAMPLE_BYTES}, \d+\) += {SAMPLE_BYTES}$")
        done, calls = self.run_traced(f"--data.source={self.text}", "--data.tokenizer=chars", "--train.eval_batches=1")
        self.assertEqual(trajectory(self.summary(done)), trajectory(of_tokens))
        for rank in range(RANKS):
            own = [call for call, rest in calls[rank] if "text.txt" in rest]
            (self.assertTrue if rank == 0 else self.assertFalse)(own, rank)

    def test_a_file_that_one_rank_cannot_read(self):
        """All ranks end with one line that names the rank."""
        for ranks, injected, expected in (
            ("[123]", "openat:error=ENOENT", "cannot be opened: No such file or directory"),
            ("1", "pread64:error=EIO:when=3+", "cannot be read: Input/output error"),
            ("1", "pread64:retval=0:when=3+", rf"ends at byte \d+, {SAMPLE_BYTES} more are needed"),
        ):
            with self.subTest(injected):
                done, _ = self.run_traced(
                    f"--data.source={self.tokens}", ranks=ranks, more=f"-P {self.tokens} -e inject={injected}"
                )
                self.assertNotEqual(done.returncode, 0)
                said = [line for line in done.stderr.splitlines() if line.startswith("shoal: ")]
                self.assertEqual(len(said), 1, done.stderr)
                self.assertRegex(said[0], rf"^shoal: rank 1: .*tokens\.h5: {expected}$")

    def test_a_checkpoint_is_created_once_and_renamed_once(self):
        """Other ranks open it once. One rank of each node syncs it, or every rank if it is written in the background. Rank 0 syncs
        the file before it renames it, and then the directory, before it deletes an older checkpoint."""
        saves, keep = 5, 2
        for io, later in (("auto", "false"), ("auto", "true"), ("collective", "false")):
            with self.subTest(io, later=later):
                options = (f"--train.steps={saves}", "--checkpoint.every=1", f"--checkpoint.keep={keep}")
                how = (f"--checkpoint.io={io}", f"--checkpoint.async={later}")
                done, calls = self.run_traced("--data.source=synthetic", *how, *options)
                self.summary(done)
                by_mpi = io == "collective"  # MPI-IO asks for the file system's type, and syncs
                for rank in range(1, RANKS):
                    own = Counter(call for call, rest in calls[rank] if "checkpoints/step_" in rest)
                    self.assertEqual(own.pop("openat"), saves, own)
                    # Otherwise NFS would read whole pages of which other nodes write a part, and write them back.
                    opened = [rest for call, rest in calls[rank] if call == "openat" and "checkpoints/step_" in rest]
                    self.assertTrue(by_mpi or all("O_WRONLY" in rest for rest in opened), opened)
                    allowed = {"pwrite64", "sync_file_range"}
                    if by_mpi or later == "true":
                        allowed.add("fsync")
                    if by_mpi:
                        allowed.add("statfs")
                    self.assertLessEqual(set(own), allowed, own)
                self.check_rank_0(calls[0], saves, keep)

    def check_rank_0(self, calls, saves, keep):
        of_checkpoints = [(call, rest) for call, rest in calls if "/checkpoints" in rest and "shoal.lock" not in rest]
        renames = [i for i, (call, _) in enumerate(of_checkpoints) if call == "rename"]
        self.assertEqual(len(renames), saves)
        for begin, end in zip([0, *renames[:-1]], renames, strict=True):
            of_data = [call for call, rest in of_checkpoints[begin:end] if ".h5.partial>" in rest]
            self.assertEqual([call for call in of_data if call in ("pwrite64", "fsync")][-1], "fsync", of_data)
        for begin, end in zip(renames, [*renames[1:], None], strict=True):
            before_deletion = itertools.takewhile(lambda of: of[0] != "unlink", of_checkpoints[begin:end])
            self.assertTrue(any(call == "fsync" and "/checkpoints>" in rest for call, rest in before_deletion))
        for begin, end in zip(renames[-3:-1], renames[-2:], strict=True):  # with one to delete
            asked = Counter(call for call, rest in of_checkpoints[begin:end] if call != "pwrite64" and named(rest))
            # The file, for metadata and for raw data; the directory, to sync it; the file to delete, which is held while
            # its name is removed.
            self.assertEqual(asked.pop("openat"), 4)
            self.assertEqual((asked.pop("rename"), asked.pop("unlink")), (1, 1))
            self.assertLessEqual(asked.pop("statfs", 0), 1)
            # The directory, and whether the checkpoints that are to be kept are still there.
            examined = sum(asked.pop(call, 0) for call in ("newfstatat", "stat", "lstat", "fstat"))
            self.assertLessEqual(examined, 1 + keep + 1)
            self.assertEqual(asked, Counter(), "nothing else by name")
            self.assertNotIn("getdents64", [call for call, _ in of_checkpoints[begin:end]])


if __name__ == "__main__":
    main()
