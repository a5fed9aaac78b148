#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws a report of a run: loss, tokens/s, where a step's time goes, communication, memory, kernels.

usage: report.py OUT_DIR [-o DIR]

OUT_DIR is a run's output.dir (summary.json, metrics.jsonl, traces) or a single trace file. Writes one PNG per figure
and report.html, a page that needs no other file, to DIR (default: OUT_DIR/report). If the run was resumed, losses and
rates cover all parts of it, and the figures that need a trace are drawn for each part. The report names what the run
did not record.
"""

from __future__ import annotations

import argparse
import html
from pathlib import Path

from shoal.program import packages, run_main

packages("h5py", "numpy", "matplotlib")

import numpy as np

from shoal.draw import (
    figures,
    figures_curves,
    figures_kernels,
    figures_time,
    figures_traffic,
    figures_waiting,
    report_identity,
    report_pipeline,
)
from shoal.draw import report_tables as tables
from shoal.draw.page import Page, Row
from shoal.draw.styles import bytes_text, seconds_text
from shoal.read.bad_input import BadInput
from shoal.read.run import Run, last_step
from shoal.read.run_parts import span, title
from shoal.read.trace import Trace
from shoal.times import breakdown, late_ranks, restarts

OLDER = "unknown (written by an older program)"


def verdict(run: Run) -> tuple[str, str]:
    """Returns the verdict that the program wrote at its end: a class (well, bad or unknown) and a sentence."""
    if not run.summary:
        if run.newest is not None and run.newest.complete:
            return "bad", "no summary.json: the run did not end well"
        return "bad", "no summary.json: the run is still going, or did not end well"
    last = last_step(run.summary)
    made = max([int(steps[-1]) for steps in (run.series("step_s")[0], run.step_seconds[0]) if len(steps)], default=0)
    if last is not None and last < made:
        return (
            "bad",
            f"resumed after step {last}, to where summary.json is, and still going or not ended well at step {made}",
        )
    said = run.summary.get("verdict")
    if not isinstance(said, dict) or "text" not in said:
        return "unknown", OLDER
    return "well" if said.get("ok") is True else "bad", str(said["text"])


def facts(run: Run) -> list[Row]:
    """The rows of the second table: what came out."""
    rows = []
    summary = run.summary
    steps, losses = run.losses
    if len(steps):
        rows.append(("steps", span(steps)))
        rows.append(("training loss", f"{losses[0]:.4f} in the first step, {losses[-1]:.4f} in the last"))
    val_steps, val_losses = run.val_losses
    if len(val_steps):
        rows.append(("validation loss", f"{val_losses[-1]:.4f} at step {val_steps[-1]}"))
    if run.entropy_rate is not None:
        rows.append(("best possible loss", f"{run.entropy_rate:.4f} nats per token (the data's entropy rate)"))
    settled = settled_text(run)
    for part, rate in run.rates_of_parts:
        of = f"steps {span(part)}" if len(run.rates_of_parts) > 1 else settled
        rows.append(("tokens/s", f"{rate:,.0f} (all ranks together, mean of {of})"))
    if mean := run.mean_step_seconds:
        rows.append(("step time", f"{seconds_text(mean)} (mean over ranks and {settled})"))
    if summary.get("peak_rss_bytes"):
        last = ", last part of the run" if len(run.parts) > 1 else ""
        rows.append(
            ("peak memory", f"{bytes_text(max(summary['peak_rss_bytes']))} (largest rank, whole process{last})")
        )
    if len(run.begun) > 1:
        lost = restarts.lost(restarts.segments(run.begun))
        again = f"{lost.repeated_steps} step{'' if lost.repeated_steps == 1 else 's'} made again"
        rows.append(
            ("lost to restarts", f"{seconds_text(lost.restart_seconds)} between parts, {seconds_text(lost.repeated_seconds)} for "
             f"{again}: {100 * lost.share:.1f} % of {seconds_text(lost.whole_seconds)}")
        )  # fmt: skip
    for part in run.parts:
        where = f" of steps {span(part.steps)}" if len(run.parts) > 1 else ""
        if (idle := breakdown.compute_idle(part)) is not None:
            rows.append(
                (f"device idle{where}", f"{100 * idle:.1f} % of a settled step (its compute queue, mean of ranks)")
            )
        if part.untimed:
            rows.append(("not timed", f"{part.untimed} pieces of the device's work in {part.path.name}, of all ranks"))
        if part.dropped:
            rows.append(
                ("events lost", f"{part.dropped} in {part.path.name}: its times are too small (lower trace.interval)")
            )
        if not part.complete:
            rows.append(("trace incomplete", f"{part.path.name}: its last events may be missing"))
    return [row for row in rows if row[1]]


def origin(run: Run) -> list[Row]:
    """What the run was computed with, and what came out, to the bit."""
    rows = []
    if trace := run.trace:
        rows += [("trace", f"{title(part)}, level {part.level}") for part in run.parts]
        rows += [(key, value) for key, value in trace.machine.items()]
    rows.append(("checksum of the parameters", run.summary.get("params_checksum", "")))
    return [row for row in rows if row[1]]


def settled_text(run: Run) -> str:
    """Names the steps that means are taken over."""
    steps = run.settled_steps
    whole = len(run.starts) < 2 or bool((np.diff(steps) == 1).all())
    return f"steps {span(steps)}" + ("" if whole else " without the first of each part")


def build(run: Run, directory: Path) -> Page:
    page = Page(run, directory)
    page.table(("this run", ""), report_identity.rows(run), "facts")
    page.table(("result", ""), facts(run), "facts")
    if run.missing:
        page.note_absent("files", "missing: " + ", ".join(run.missing))
    if run.unsettled:
        page.note_absent("settled steps", run.unsettled)
    for note in run.notes:
        page.note_absent("traces", note)
    page.heading("Step by step")
    if page.figure("curves", figures_curves.curves, run):
        for why in figures_curves.panels_of(run)[1]:
            page.note_absent("curves", why)
    page.figure("step_times", figures.step_times, run)
    if len(run.begun) > 1:
        page.heading("Parts of the run")
        page.figure("parts", figures_time.parts_in_time, run)
        head = (
            "part",
            "steps",
            "ran on",
            "first step at",
            "ended at",
            "from end to first step",
            "steps made again",
            "their time",
        )
        page.table(head, tables.segment_rows(run))
    if len(run.parts) > 1:
        head = ("part", "steps", "ran on", "ZeRO stage", "started (UTC)", "tokens/s")
        page.table(head, tables.resumed_rows(run))
    for number, trace in enumerate(run.parts or [None]):
        add_part(page, trace, "" if number == 0 else f"_from_{trace.steps[0] - 1}", len(run.parts) > 1)
    page.heading("Memory by kind" + (f", of steps {span(run.parts[-1].steps)}" if len(run.parts) > 1 else ""))
    page.table(("memory of the largest rank", "planned", "used"), tables.state_rows(run))
    page.folded("Machine, libraries, checksum", ("", ""), origin(run))
    of_last = " of the last part" if len(run.parts) > 1 else ""
    page.folded("All options" + of_last, ("option", "value"), sorted(run.options.items()))
    return page


def add_part(page: Page, trace: Trace | None, suffix: str, of_several: bool) -> None:
    """Adds the figures and tables of one trace. The names of its figures end in the suffix."""
    where = f": {title(trace)}" if of_several else ""
    page.heading(f"Where a step's time goes{where}")
    if page.figure(f"step_parts{suffix}", figures.step_parts, trace):
        page.table(tables.part_head(trace), tables.part_rows(trace))
        page.table(("between steps", "times", "total, slowest rank"), tables.between_rows(trace))
        if trace.device_queues:
            head = ("queue of the device", "pieces/step", "busy/step", "kernels", "copies", "operations", "idle")
            page.table(head, tables.queue_rows(trace))
    report_pipeline.add(page, trace, suffix, where)
    page.heading(f"Communication{where}")
    if page.figure(f"communication{suffix}", figures_traffic.communication, trace):
        page.table(
            ("operation", "ranks", "calls/step", "sent/step", "time per call", "bandwidth", "waiting/step"),
            tables.operation_rows(trace),
        )
        waits = late_ranks.split_waits(trace)
        if page.figure(f"waiting{suffix}", figures_waiting.waiting, trace):
            head = (
                "operation",
                "ranks",
                "waiting/step",
                "for a late rank",
                "for the transfer",
                "late",
                "most often last",
            )
            page.table(head, tables.waiting_rows(trace, waits))
            page.table(("the others wait for", "node", "per step, mean of the others", "of all such waits"),
                       tables.straggler_rows(trace, waits))  # fmt: skip
        if page.figure(f"critical_path{suffix}", figures_waiting.critical_path, trace):
            page.text(tables.path_text(trace, late_ranks.critical_path(trace, waits)))
        if rows := tables.clock_rows(trace):
            page.figure(f"clocks{suffix}", figures_time.clocks, trace)
            head = ("clock of", "ahead at first", "ahead at last", "drift", "uncertain by")
            page.table(head, rows)
        if rows := tables.volume_rows(trace):
            page.text(tables.volume_note(trace))
            page.table(
                ("operation", "state", "elements", "sent/step", "theory", "saved", "extra", "difference", "by rank"),
                rows,
            )
        if page.figure(f"units{suffix}", figures_traffic.units, trace):
            head = ("unit", "operation", "calls/step", "bytes/step", "in flight/step", "waiting/step", "overlapped")
            page.table(head, tables.unit_rows(trace))
    page.heading(f"Memory{where}")
    page.figure(f"memory{suffix}", figures.memory, trace)
    page.heading(f"Kernels{where}")
    if trace is not None and (rows := tables.kernel_rows(trace)):
        page.text(tables.kernel_note(trace))
        page.table(
            ("kernel", "calls/step", "time/step", "of the step", "time per call", "operations/s", "least data moved/s"),
            rows,
        )
        if page.figure(f"roofline{suffix}", figures_kernels.roofline, trace):
            page.text(tables.roofline_note(trace))
    else:
        page.note_absent(f"kernels{suffix}", "no kernel events (trace.level = kernels records them)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", metavar="OUT_DIR", help="a run's output directory, or a trace file")
    parser.add_argument(
        "-o", "--output", metavar="DIR", type=Path, help="directory to write to (default: OUT_DIR/report)"
    )
    arguments = parser.parse_args()
    run = Run.read(arguments.run)
    directory = arguments.output or run.path / "report"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        page = build(run, directory)
        how, words = verdict(run)
        lead = f'<p class="lead"><span class="verdict {how}">{html.escape(words)}</span></p>'
        path = page.write(f"shoal: {run.name}", lead)
    except OSError as error:
        raise BadInput(f"{directory}: cannot be written: {error.strerror}") from error
    print(f"{run.path}: {words}")
    for name, value in (*report_identity.rows(run), *facts(run)):
        print(f"  {name:<28}{value}")
    for absent in page.absent:
        print(f"  not shown: {absent}")
    print(path)


if __name__ == "__main__":
    run_main(main)
