# SPDX-License-Identifier: Apache-2.0
"""Runs CTest entries until a time is over, each at most ten times as long as it takes without sanitizers. CTest itself can
only be killed, and then does not tell what passed."""

import os
import signal
import subprocess
import time
import xml.etree.ElementTree as ElementTree


class Running:
    """An entry that has been started. Its output is in a file, so that it never waits for a reader."""

    def __init__(self, test, properties, limit, log):
        self.name, self.limit, self.log = test["name"], limit, log
        self.slots = int(properties.get("PROCESSORS", 1))
        self.skips = properties.get("SKIP_RETURN_CODE")
        given = dict(line.split("=", 1) for line in properties.get("ENVIRONMENT", []))
        self.begin = time.monotonic()
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                test["command"], cwd=properties["WORKING_DIRECTORY"], env={**os.environ, **given}, stdout=output,
                stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip

    def seconds(self):
        return time.monotonic() - self.begin

    def kill(self):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def ended(self):
        """run, fail or notrun as in CTest's reports; None as long as it runs."""
        code = self.process.poll()
        if code is None:
            if self.seconds() < self.limit:
                return None
            self.kill()
            print(
                f"{self.name} was killed: it did not end within {self.limit:.0f} s",
                flush=True,
            )
            return "fail"
        return "run" if code == 0 else "notrun" if code == self.skips else "fail"


def run(tests, limit_of, slots, seconds, folder):
    """Starts the tests in this order. Returns how those ended that did. What still runs when the time is over may end within
    its limit, since a test that hangs is a failure."""
    folder.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + seconds
    waiting, running, results = list(tests), [], {}

    def end_all(*_):
        for each in running:
            each.kill()
            print(
                f"cut off while it ran: {each.name}, for {each.seconds():.0f} s",
                flush=True,
            )
        raise SystemExit(1)

    signal.signal(signal.SIGTERM, end_all)
    while running or (waiting and time.monotonic() < deadline):
        while waiting and time.monotonic() < deadline:
            properties = {
                each["name"]: each["value"] for each in waiting[0]["properties"]
            }
            if (
                running
                and sum(each.slots for each in running)
                + int(properties.get("PROCESSORS", 1))
                > slots
            ):
                break
            test = waiting.pop(0)
            limit = min(float(properties.get("TIMEOUT", 120)), limit_of(test["name"]))
            log = folder / f"LastTest-{test['name'].replace('/', '-')}.log"
            running.append(Running(test, properties, limit, log))
        for each in list(running):
            how = each.ended()
            if how is None:
                continue
            running.remove(each)
            results[each.name] = how
            print(
                f"{len(results)}/{len(tests)} {each.name}: {how}, {each.seconds():.1f} s",
                flush=True,
            )
            if how == "fail":
                print(each.log.read_text(errors="replace"), flush=True)
        time.sleep(0.02)
    return results


def write_report(results, path):
    """As `ctest --output-junit`."""
    suite = ElementTree.Element("testsuite")
    for name, how in results.items():
        ElementTree.SubElement(suite, "testcase", name=name, status=how)
    ElementTree.ElementTree(suite).write(path)
