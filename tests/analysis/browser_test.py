#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The report in a real browser: headless Chromium loads it, says nothing on its console, shows all pictures, and its screenshot
stays in the build folder. Skipped if there is no Chromium (Debian: chromium)."""

import base64
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import make_run

from scripts import script  # isort: skip

BROWSERS = ("chromium", "chromium-headless-shell", "chromium-browser", "google-chrome")
EVIL = '"><img src=x onerror="console.error(\'from a deck\')"><script>console.error("from a deck")</script>'
# Beside the report in a frame: tells, in its title, how many pictures were decoded. Reports what goes wrong on the console.
PROBE = """
<script>
addEventListener("load", () => {
  const all = [...document.images];
  document.title = "pictures " + all.filter((i) => i.complete && i.naturalWidth > 100).length + " of " + all.length
                 + ", wider than the page: " + all.filter((i) => i.getBoundingClientRect().right > innerWidth).length;
});
</script>
"""


def browser():
    named = os.environ.get("SHOAL_CHROMIUM", "")
    return named or next((found for name in BROWSERS if (found := shutil.which(name))), None)


class Browser(unittest.TestCase):
    def setUp(self):
        self.directory = Path(tempfile.mkdtemp(prefix="shoal-browser-"))
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        self.artefacts = Path(os.environ.get("SHOAL_ARTEFACTS", self.directory))

    def chromium(self, page, *options):
        command = [browser(), "--headless", "--disable-gpu", "--no-first-run", "--enable-logging=stderr", "--log-level=0",
                   f"--user-data-dir={self.directory / 'profile'}", "--window-size=1100,9000", "--virtual-time-budget=10000"]  # fmt: skip
        if os.geteuid() == 0:
            command.append("--no-sandbox")  # as root it does not start with one
        done = subprocess.run([*command, *options, page.as_uri()], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        return done.stdout, re.findall(r".*CONSOLE.*", done.stderr)

    def report(self):
        path = make_run.make_run(self.directory / "a<b>&'run'", level="kernels", options={"data.source": EVIL}, machine=make_run.PEAK,
                                 drift_ppm=20.0)  # fmt: skip
        done = script("report.py", path)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return path / "report/report.html"

    def test_the_report_is_shown_without_an_error(self):
        page = self.report()
        pictures = page.read_text().count("<img ")
        probed = page.with_name("probed.html")
        probed.write_text(page.read_text().replace("</body>", PROBE + "</body>"))
        shown, console = self.chromium(probed, "--dump-dom")
        self.assertEqual(console, [])
        self.assertIn(f"<title>pictures {pictures} of {pictures}, wider than the page: 0</title>", shown)
        _, console = self.chromium(page, f"--screenshot={self.artefacts / 'report.png'}")
        self.assertEqual(console, [])
        image = (self.artefacts / "report.png").read_bytes()
        self.assertEqual(image[:4], b"\x89PNG")
        self.assertGreater(len(image), 100_000)
        print(f"screenshot: {self.artefacts / 'report.png'}")

    def test_an_error_on_the_console_would_be_seen(self):
        page = self.directory / "error.html"
        page.write_text(
            f'<html><body><img src="data:image/png;base64,{base64.b64encode(b"x").decode()}">{EVIL[2:]}</body></html>'
        )
        _, console = self.chromium(page, "--dump-dom")
        self.assertTrue(any("from a deck" in line for line in console), console)


if __name__ == "__main__":
    if browser() is None:
        print("SKIPPED: no Chromium (Debian: chromium; or its path in SHOAL_CHROMIUM)")
        sys.exit(77)
    unittest.main()
