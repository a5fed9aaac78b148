#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws what a run did: loss, tokens/s, where a step's time goes, communication, memory, kernels.

usage: report.py OUT_DIR [-o DIR]

OUT_DIR is a run's output.dir (summary.json, metrics.jsonl, trace.h5) or a trace file alone. Writes one PNG per figure and
report.html, one self-contained page, to DIR (default: OUT_DIR/report). What the run did not record is named, not drawn.
"""

from __future__ import annotations

import argparse
import base64
import html
import io
import statistics
from collections.abc import Callable
from pathlib import Path

import breakdown
import figures
from figures import bytes_text, rate_text, seconds_text
from shoal_run import Run
from shoal_trace import BadInput, run_main

STYLE = """
body { font: 15px/1.5 system-ui, "DejaVu Sans", sans-serif; color: #222831; max-width: 62rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.5rem; margin-bottom: .2rem } h2 { font-size: 1.1rem; margin: 2.2rem 0 .4rem }
p.lead { color: #6b7280; margin-top: 0 } img { width: 100%; max-width: 58rem; display: block }
table { border-collapse: collapse; font-size: .9rem; margin: .6rem 0 }
th { text-align: left; color: #6b7280; font-weight: 500; border-bottom: 1px solid #b8bec7 }
th, td { padding: .2rem 1.2rem .2rem 0 } td { border-bottom: 1px solid #e8ebef }
td + td, th + th { text-align: right } table.facts td + td { text-align: left }
.verdict { display: inline-block; padding: .1rem .6rem; border-radius: .3rem; background: #e3f3ee; color: #1f6f5b; font-weight: 600 }
.verdict.bad { background: #fae5e8; color: #a32a3b } .absent { color: #6b7280; font-style: italic }
details { margin-top: 2rem } summary { cursor: pointer; color: #6b7280 }
"""

Row = tuple[str, ...]


def verdict(run: Run) -> tuple[bool, str]:
    """(whether all is well, in words): from the summary, which only a run that ended writes."""
    if "verdict" in run.summary:
        text = str(run.summary["verdict"])
        return not text.upper().startswith(("FAIL", "INVALID")), text
    if run.trace is not None and not run.trace.complete:
        return False, "the trace is not complete: the run is still going, or did not end well"
    if not run.summary:
        return False, "no summary.json: the run is still going, or did not end well"
    return True, "ended well"


def facts(run: Run) -> list[Row]:
    """What one wants to know first."""
    rows = []
    trace, summary = run.trace, run.summary
    nodes = trace.attributes.get("nodes") if trace else None
    if run.world_size:
        rows.append(("ranks", f"{run.world_size}" + (f" on {nodes} node(s)" if nodes else "")))
    if trace:
        rows.append(("program", f"{trace.attributes.get('program', 'shoal')} {trace.attributes.get('version', '')}"))
        rows.append(("started", trace.attributes.get("started", "")))
        rows.append(("trace", f"{trace.path.name}, level {trace.level}"))
        rows += [(key, value) for key, value in trace.machine.items()]
    steps, losses = run.losses
    if len(steps):
        rows.append(("steps", f"{steps[0]} to {steps[-1]}"))
        rows.append(("training loss", f"{losses[0]:.4f} at first, {losses[-1]:.4f} at last"))
    val_steps, val_losses = run.val_losses
    if len(val_steps):
        rows.append(("validation loss", f"{val_losses[-1]:.4f} at step {val_steps[-1]}"))
    if run.entropy_rate is not None:
        rows.append(("entropy of the data", f"{run.entropy_rate:.4f} nats per token: no loss goes below it"))
    if rate := figures.throughput(run):
        rows.append(("tokens/s", f"{rate:,.0f} (median, all ranks together)"))
    _, seconds = run.step_seconds
    if len(seconds):
        rows.append(("step time", f"{seconds_text(statistics.median(seconds))} (median)"))
    if summary.get("peak_rss_bytes"):
        rows.append(("peak memory of a rank", f"{bytes_text(max(summary['peak_rss_bytes']))} (resident)"))
    if summary.get("params_checksum"):
        rows.append(("checksum of the parameters", summary["params_checksum"]))
    if trace and trace.dropped:
        rows.append(("events lost", f"{trace.dropped}: times below are too small (lower trace.interval)"))
    return [row for row in rows if row[1]]


def state_rows(run: Run) -> list[Row]:
    states = run.summary.get("state_bytes", {})
    planned, taken = states.get("planned", {}), states.get("taken", {})
    kinds = [kind for kind in planned if planned[kind] or taken.get(kind)]
    rows = [(kind, bytes_text(planned[kind]), bytes_text(taken.get(kind, 0))) for kind in kinds]
    if rows:
        rows.append(("together", bytes_text(sum(planned.values())), bytes_text(sum(taken.values()))))
    return rows


def part_rows(run: Run) -> list[Row]:
    parts, seconds = breakdown.step_parts(run.trace)
    whole = seconds.sum(axis=0).mean()
    rows = [
        ("exposed communication" if part == "wait" else part, seconds_text(row.mean()), seconds_text(row.min()),
         seconds_text(row.max()), f"{100 * row.mean() / whole:.1f} %")
        for part, row in zip(parts, seconds, strict=True)
    ]  # fmt: skip
    return [*rows, ("step", seconds_text(whole), "", "", "")]


def between_rows(run: Run) -> list[Row]:
    phases = breakdown.phases_between_steps(run.trace)
    return [(name, str(count), seconds_text(seconds)) for name, (count, seconds) in phases.items()]


def operation_rows(run: Run) -> list[Row]:
    return [
        (op.name, op.group, f"{op.calls_per_step:.3g}", bytes_text(op.bytes_per_step), seconds_text(op.seconds),
         rate_text(op.bandwidth), seconds_text(op.exposed_per_step))
        for op in breakdown.operations(run.trace)
    ]  # fmt: skip


def kernel_rows(run: Run) -> list[Row]:
    return [
        (k.name, f"{k.calls_per_step:.3g}", seconds_text(k.seconds_per_step), f"{100 * k.share:.1f} %",
         seconds_text(k.seconds_per_step / k.calls_per_step), rate_text(k.bandwidth) if k.bytes_per_call else "")
        for k in breakdown.kernels(run.trace)
    ]  # fmt: skip


class Page:
    """The report as it grows: PNGs in a directory, and the page that holds them all."""

    def __init__(self, run: Run, directory: Path):
        self.run, self.directory = run, directory
        self.body: list[str] = []
        self.absent: list[str] = []

    def heading(self, title: str) -> None:
        self.body.append(f"<h2>{html.escape(title)}</h2>")

    def note_absent(self, what: str, why: str) -> None:
        self.absent.append(f"{what}: {why}")
        self.body.append(f'<p class="absent">{html.escape(why)}</p>')

    def table(self, head: Row, rows: list[Row], style: str = "") -> None:
        if not rows:
            return
        cells = "".join(f"<th>{html.escape(name)}</th>" for name in head)
        lines = ["<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows]
        self.body.append(f'<table class="{style}"><tr>{cells}</tr>' + "\n".join(lines) + "</table>")

    def figure(self, name: str, draw: Callable, source) -> bool:
        """Draws from the source (the run or its trace); without it, or with nothing in it, says so."""
        if source is None:
            self.note_absent(name, "no trace (trace.h5 is missing; trace.level = off writes none)")
            return False
        try:
            figure = draw(source)
        except figures.Nothing as nothing:
            self.note_absent(name, str(nothing))
            return False
        image = io.BytesIO()
        figure.savefig(image, format="png")
        figures.plt.close(figure)
        (self.directory / f"{name}.png").write_bytes(image.getvalue())
        encoded = base64.b64encode(image.getvalue()).decode()
        self.body.append(f'<img alt="{html.escape(name)}" src="data:image/png;base64,{encoded}">')
        return True

    def write(self, title: str, lead: str) -> Path:
        path = self.directory / "report.html"
        page = (
            f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{html.escape(title)}</title>'
            f"<style>{STYLE}</style><body><h1>{html.escape(title)}</h1>{lead}"
            + "\n".join(self.body)
            + "</body></html>\n"
        )
        path.write_text(page, encoding="utf-8")
        return path


def build(run: Run, directory: Path) -> Page:
    page = Page(run, directory)
    page.table(("", ""), facts(run), "facts")
    if run.missing:
        page.note_absent("files", "not there: " + ", ".join(run.missing))
    page.heading("Learning")
    page.figure("loss", figures.loss, run)
    page.heading("Speed")
    page.figure("tokens_per_s", figures.tokens_per_s, run)
    page.figure("step_times", figures.step_times, run)
    page.heading("Time")
    if page.figure("step_parts", figures.step_parts, run.trace):
        page.table(("part", "mean", "fastest rank", "slowest rank", "share"), part_rows(run))
        page.table(("between steps", "times", "together"), between_rows(run))
    page.heading("Communication")
    if page.figure("communication", figures.communication, run.trace):
        page.table(
            ("operation", "group", "calls/step", "sent/step", "time of a call", "bandwidth", "waited for/step"),
            operation_rows(run),
        )
    page.heading("Memory")
    page.figure("memory", figures.memory, run.trace)
    page.table(("state of the largest rank", "planned", "taken"), state_rows(run))
    page.heading("Kernels")
    if run.trace is not None and (rows := kernel_rows(run)):
        page.table(("kernel", "calls/step", "time/step", "share of step", "a call", "bandwidth"), rows)
    else:
        page.note_absent("kernels", "no kernel events (trace.level = kernels records them)")
    page.body.append("<details><summary>All options</summary>")
    page.table(("option", "value"), sorted(run.options.items()), "facts")
    page.body.append("</details>")
    return page


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", metavar="OUT_DIR", help="a run's output directory, or a trace file")
    parser.add_argument("-o", "--output", metavar="DIR", type=Path, help="where to write (default: OUT_DIR/report)")
    arguments = parser.parse_args()
    run = Run.read(arguments.run)
    directory = arguments.output or run.path / "report"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        page = build(run, directory)
        well, words = verdict(run)
        lead = f'<p class="lead"><span class="verdict{"" if well else " bad"}">{html.escape(words)}</span></p>'
        path = page.write(f"shoal: {run.name}", lead)
    except OSError as error:
        raise BadInput(f"{directory}: cannot be written: {error.strerror}") from error
    print(f"{run.path}: {words}")
    for name, value in facts(run):
        print(f"  {name:<28}{value}")
    for absent in page.absent:
        print(f"  not shown: {absent}")
    print(path)


if __name__ == "__main__":
    run_main(main)
