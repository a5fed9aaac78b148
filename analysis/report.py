#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws what a run did: loss, tokens/s, where a step's time goes, communication, memory, kernels.

usage: report.py OUT_DIR [-o DIR]

OUT_DIR is a run's output.dir (summary.json, metrics.jsonl, trace.h5) or a trace file alone. Writes one PNG per figure and
report.html, one self-contained page, to DIR (default: OUT_DIR/report). What the run did not record is named, not drawn.
"""

from __future__ import annotations

import argparse
import html
import statistics
from pathlib import Path

import breakdown
import figures
import figures_traffic
import traffic
import volume
from figures import bytes_text, rate_text, seconds_text
from page import Page, Row
from run_options import period_of
from shoal_run import Run
from shoal_trace import BadInput, run_main


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
        kind = "mean, meetings included" if period_of(run.options) > 1 else "median"
        rows.append(("tokens/s", f"{rate:,.0f} ({kind}, all ranks together)"))
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
        for op in traffic.operations(run.trace)
    ]  # fmt: skip


def volume_rows(run: Run) -> list[Row]:
    """Measured against theory; bytes in full, since they agree to the byte."""
    rows = volume.volumes(run.trace)
    table = [
        (v.operation, v.state, v.formula, f"{float(v.measured):,.0f}", f"{float(v.theory):,.0f}", f"{float(v.held):,.0f}",
         f"{float(v.again):,.0f}", f"{float(v.difference):+,.0f}", f"{float(v.least):,.0f} to {float(v.most):,.0f}")
        for v in rows
    ]  # fmt: skip
    if len(rows) > 1:
        columns = zip(*((v.measured, v.theory, v.held, v.again, v.difference) for v in rows), strict=True)
        sums = [float(sum(column)) for column in columns]
        table.append(("together", "", "", *(f"{s:,.0f}" for s in sums[:-1]), f"{sums[-1]:+,.0f}", ""))
    return table


def volume_note(run: Run) -> str:
    work = volume.Work.of(run.trace)
    if work is None:
        return ""
    return (
        f"Stage {work.stage} on D = {work.ranks} ranks; N = {work.elements:,} parameters of {work.parameter_size} bytes, "
        f"gradients of {work.gradient_size}; A = {work.turns} micro-batches on each rank in a step, in {work.rounds} "
        "round(s). Bytes; theory: so many elements times (D - 1) / D; held: what units saved that stayed from forward to "
        "backward; again: what units took that were gathered once more to compute activations again. Shards are whole "
        "pieces of 256 elements, so ranks differ by these."
    )


def unit_rows(run: Run) -> list[Row]:
    return [
        (str(run.trace.units[op.unit]), op.name, f"{op.calls_per_step:.3g}", bytes_text(op.bytes_per_step),
         seconds_text(op.open_per_step), *(("", "") if op.name == "release" else
         (seconds_text(op.exposed_per_step), f"{100 * op.hidden:.0f} %")))
        for op in traffic.unit_operations(run.trace)
    ]  # fmt: skip


def kernel_rows(run: Run) -> list[Row]:
    return [
        (k.name, f"{k.calls_per_step:.3g}", seconds_text(k.seconds_per_step), f"{100 * k.share:.1f} %",
         seconds_text(k.seconds_per_step / k.calls_per_step), rate_text(k.bandwidth) if k.bytes_per_call else "")
        for k in breakdown.kernels(run.trace)
    ]  # fmt: skip


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
    if page.figure("communication", figures_traffic.communication, run.trace):
        page.table(
            ("operation", "group", "calls/step", "sent/step", "time of a call", "bandwidth", "waited for/step"),
            operation_rows(run),
        )
        if rows := volume_rows(run):
            page.text(volume_note(run))
            page.table(
                ("operation", "of", "elements", "sent/step", "theory", "held", "again", "difference", "by rank"), rows
            )
        if page.figure("units", figures_traffic.units, run.trace):
            head = ("unit", "operation", "calls/step", "bytes/step", "open/step", "waited for/step", "overlapped")
            page.table(head, unit_rows(run))
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
