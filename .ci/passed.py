# SPDX-License-Identifier: Apache-2.0
"""passed.py PART BUILD [OPTIONS OF CTEST]: whether enough tests of a part of .ci/run have passed (.ci/floors), and none was
skipped that CI should not skip (.ci/skips). Prints the tests that did not pass, with the reason.

Reads what `ctest --output-junit RESULTS*.xml` has left in BUILD, and its logs. OPTIONS: with which `ctest -N` lists the tests
that should have run."""

import pathlib
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

HERE = pathlib.Path(__file__).resolve().parent


def floor_of(part, listed):
    """How many tests must have passed, if so many are listed."""
    for line in (HERE / "floors").read_text().splitlines():
        words = line.split("#")[0].split()
        if words and words[0] == part:
            number = float(words[1])
            return number / 100 * listed if words[2:] == ["%"] else number
    raise SystemExit(f".ci/floors has no line for {part}")


def accepted(build):
    """The regular expressions of .ci/skips that hold for this build folder on this machine."""
    holds = {
        "everywhere": True,
        "without ../shared": not (HERE.parent.parent / "shared").is_dir(),
    }
    found, section = [], "everywhere"
    for line in (HERE / "skips").read_text().splitlines():
        if re.fullmatch(r"\[.*\]", line):
            section = line[1:-1]
        elif line and not line.startswith("#") and holds.get(section, section == build):
            found.append(line)
    return re.compile(r"(?:[\w/]+\.\w+: )?(?:" + "|".join(found) + ")")


def results(build):
    """How each test ended, by its name: run, fail, notrun (skipped or not started)."""
    found = {}
    for path in sorted(build.glob("results*.xml")):
        for case in ElementTree.parse(path).getroot().iter("testcase"):
            found[case.get("name")] = case.get("status")
    return found


def skips(build):
    """The lines that begin with "SKIPPED: ", without these words."""
    lines = set()
    for path in build.glob("Testing/**/LastTest*.log"):
        lines.update(
            re.findall(r"^SKIPPED: (.*)$", path.read_text(errors="replace"), re.M)
        )
    return sorted(lines)


def main(part, folder, *options):
    build = HERE.parent / folder
    listed = subprocess.run(
        ["ctest", "--test-dir", str(build), "-N", *options],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    names = re.findall(r"^ *Test *#\d+: (\S+)", listed, re.M)
    ended = results(build)
    passed = [name for name in names if ended.get(name) == "run"]
    failed = [name for name, how in ended.items() if how == "fail"]
    skipped = [name for name in names if ended.get(name) == "notrun"]
    absent = [name for name in names if name not in ended]
    least = floor_of(part, len(names))
    print(f"== {part}: {len(passed)} of {len(names)} passed, at least {least:.0f} have to; {len(failed)} failed, "
          f"{len(skipped)} skipped, {len(absent)} not run")  # fmt: skip
    for what, which in (
        ("failed", failed),
        ("skipped as a whole", skipped),
        ("not run", absent),
    ):
        if which:
            print(f"{what}: {' '.join(which)}")
    problems = [f"{name} failed" for name in failed]
    if not names or len(passed) < least:
        problems.append(
            f"{len(passed)} tests passed, fewer than {least:.0f} (.ci/floors)"
        )
    fine = accepted(folder)
    for line in skips(build):
        accepts = fine.fullmatch(line) is not None
        print(f"SKIPPED: {line}" + ("" if accepts else "   <- not in .ci/skips"))
        if not accepts:
            problems.append(f"skipped, but CI should not skip it: {line}")
    for problem in problems:
        print(f"{part}: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
