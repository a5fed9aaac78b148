# SPDX-License-Identifier: Apache-2.0
"""The tables of report.py, as rows of text. Values from a trace are means over ranks and settled steps
(named in summary.json)."""

from __future__ import annotations

import numpy as np

from shoal.draw import labels
from shoal.draw.page import Row
from shoal.draw.styles import bytes_text, plain, rate_text, seconds_text
from shoal.read.run import Run
from shoal.read.run_parts import shape, span
from shoal.read.trace import Trace
from shoal.times import breakdown, kernel_work, late_ranks, restarts, traffic, volume

MOST_STRAGGLERS = 8  # rows
MOST_ROWS_OF_RANKS = 24  # beyond it, percentiles


def state_rows(run: Run) -> list[Row]:
    states = run.summary.get("state_bytes", {})
    planned, taken = states.get("planned", {}), states.get("taken", {})
    kinds = [kind for kind in planned if planned[kind] or taken.get(kind)]
    rows = [(labels.state(kind), bytes_text(planned[kind]), bytes_text(taken.get(kind, 0))) for kind in kinds]
    if rows:
        rows.append(("total", bytes_text(sum(planned.values())), bytes_text(sum(taken.values()))))
    return rows


def part_head(trace: Trace) -> Row:
    middle = ("5 % of ranks below", "median", "95 % below") if trace.world_size > MOST_ROWS_OF_RANKS else ()
    return ("part", "mean of ranks", "least of a rank", *middle, "most of a rank", "of the step")


def part_rows(trace: Trace) -> list[Row]:
    parts, seconds = breakdown.step_parts(trace)
    whole = seconds.sum(axis=0).mean()

    def cells(row: np.ndarray) -> tuple[str, ...]:
        middle = np.percentile(row, (5, 50, 95)) if trace.world_size > MOST_ROWS_OF_RANKS else ()
        return tuple(seconds_text(value) for value in (row.mean(), row.min(), *middle, row.max()))

    rows = [
        (labels.part(part), *cells(row), f"{100 * row.mean() / whole:.1f} %")
        for part, row in zip(parts, seconds, strict=True)
    ]
    return [*rows, ("step", *cells(seconds.sum(axis=0)), "100.0 %")]


def between_rows(trace: Trace) -> list[Row]:
    phases = breakdown.phases_between_steps(trace)
    return [(name, str(count), seconds_text(seconds)) for name, (count, seconds) in phases.items()]


def operation_rows(trace: Trace) -> list[Row]:
    return [
        (op.name, labels.group(op.group), plain(op.calls_per_step), bytes_text(op.bytes_per_step),
         seconds_text(op.seconds), rate_text(op.bandwidth), seconds_text(op.exposed_per_step))
        if op.calls_per_step
        else (op.name, "between its messages", "", "", "", "", seconds_text(op.exposed_per_step))
        for op in traffic.operations(trace)
    ]  # fmt: skip


def volume_rows(trace: Trace) -> list[Row]:
    """Compares the bytes sent with theory. All digits are shown, because both agree to the byte."""
    rows = volume.volumes(trace)
    table = [
        (v.operation, v.state, v.formula, f"{float(v.measured):,.0f}", f"{float(v.theory):,.0f}", f"{float(v.saved):,.0f}",
         f"{float(v.extra):,.0f}", f"{float(v.difference):+,.0f}", f"{float(v.least):,.0f} to {float(v.most):,.0f}")
        for v in rows
    ]  # fmt: skip
    if len(rows) > 1:
        columns = zip(*((v.measured, v.theory, v.saved, v.extra, v.difference) for v in rows), strict=True)
        sums = [float(sum(column)) for column in columns]
        table.append(("total", "", "", *(f"{s:,.0f}" for s in sums[:-1]), f"{sums[-1]:+,.0f}", ""))
    return table


def volume_note(trace: Trace) -> str:
    work = volume.Work.of(trace)
    if work is None:
        return ""
    steps, skipped = len(breakdown.settled_steps(trace)), volume.skipped_updates(trace)
    not_updated = ""
    if skipped and work.stage and work.gathered < work.elements:
        not_updated = f" {skipped} of the {steps} updates whose parameters count here were skipped."
    return (
        f"Stage {work.stage} on D = {work.ranks} ranks; N = {work.elements:,} parameters of {work.parameter_size} bytes, "
        f"gradients of {work.gradient_size} bytes; A = {work.micro_steps} micro-batches on each rank in a step, in "
        f"{work.rounds} accumulation round{'' if work.rounds == 1 else 's'}. All numbers are bytes. theory: the elements of "
        "the third column times (D - 1) / D. saved: parameters kept from forward to backward, and those that a skipped "
        "update left as they were. extra: parameters gathered once more for recomputation. Shards are cut at multiples of 256 "
        f"elements, so the ranks differ slightly.{not_updated}"
    )


def unit_rows(trace: Trace) -> list[Row]:
    return [
        (str(trace.units[op.unit]), labels.part(op.name), plain(op.calls_per_step), bytes_text(op.bytes_per_step),
         seconds_text(op.open_per_step), *(("", "") if op.name == "release" else
         (seconds_text(op.exposed_per_step), f"{100 * op.hidden:.0f} %")))
        for op in traffic.unit_operations(trace)
    ]  # fmt: skip


def kernel_note(trace: Trace) -> str:
    note = f"Means over ranks and steps {span(breakdown.settled_steps(trace))}, without the evaluations between steps."
    if not trace.device_queues:
        return note
    return note + (
        " By the device's clock. What its compute queue did and its idle time add up to the step; other queues, which are named, "
        "work beside it."
    )


def kernel_rows(trace: Trace) -> list[Row]:
    """Kernels, waiting outside kernels, and the rest of the step: the percentages add up to the step. On a device those of
    the compute queue and its idle time do."""
    times = breakdown.kernel_times(trace)
    compute = trace.queues[breakdown.COMPUTE] if times.on_device else ""
    model = kernel_work.Model.of(trace)
    rows = []
    for k in times.kernels:
        work, seconds = kernel_work.work_of(k, model), k.seconds_per_step / k.calls_per_step
        name = k.name + ("" if k.queue == compute else f" (queue {k.queue})")
        rows.append(
            (name, plain(k.calls_per_step), seconds_text(k.seconds_per_step), f"{100 * k.share:.1f} %", seconds_text(seconds),
             f"{plain(work.flops / seconds / 1e9)} GFLOP/s" if work.flops and seconds > 0 else "",
             rate_text(work.bytes / seconds) if work.bytes and seconds > 0 else "")
        )  # fmt: skip
    if not rows:
        return []
    rest = [("idle", times.other)] if times.on_device else [(labels.part("wait"), times.waited), ("other", times.other)]
    for name, seconds in (*rest, ("step", times.step)):
        rows.append((name, "", seconds_text(seconds), f"{100 * seconds / times.step:.1f} %", "", "", ""))
    return rows


def roofline_note(trace: Trace) -> str:
    """Says which kernels the roofline picture does not have."""
    placed, others = kernel_work.points(trace, breakdown.kernel_times(trace).kernels)
    if not placed or not others:
        return ""
    return (
        "Products and attention are placed by their operations and bytes, the larger the more of the step they take. Not placed, "
        f"because they are no products: {', '.join(others)}."
    )


def waiting_rows(trace: Trace, waits: late_ranks.Waits) -> list[Row]:
    return [
        (op.name, labels.group(op.group) if op.last_rank >= 0 or not op.computing else "between its messages",
         seconds_text(op.seconds), seconds_text(op.late), seconds_text(op.transfer),
         f"{100 * op.late / op.seconds:.0f} %" if op.seconds else "",
         f"rank {op.last_rank} ({100 * op.last_share:.0f} %)" if op.last_rank >= 0 else "")
        for op in late_ranks.exposed(trace, waits)
    ]  # fmt: skip


def straggler_rows(trace: Trace, waits: late_ranks.Waits) -> list[Row]:
    return [
        (f"rank {each.rank}", trace.hosts[each.rank] if each.rank < len(trace.hosts) else "", seconds_text(each.delay),
         f"{100 * each.share:.0f} %")
        for each in late_ranks.stragglers(trace, waits)[:MOST_STRAGGLERS]
    ]  # fmt: skip


def path_text(trace: Trace, path: late_ranks.Path) -> str:
    """Names the critical path in a sentence."""
    if not path.work:
        return ""
    ranks = path.of_ranks()
    rank = next(iter(ranks))
    part = max((key for key in path.work if key[0] == rank), key=lambda key: path.work[key])[1]
    words = (
        f"Critical path: {seconds_text(path.seconds)} of a step; {100 * ranks[rank] / path.seconds:.0f} % of it is work of rank "
        f"{rank} (most: {labels.part(part)})"
    )
    if path.transfer:
        name, group = max(path.transfer, key=lambda key: path.transfer[key])
        whole = sum(path.transfer.values())
        words += (
            f", {100 * whole / path.seconds:.0f} % transfer (most: {name}{', ' + labels.group(group) if group else ''})"
        )
    return words + "."


def clock_rows(trace: Trace) -> list[Row]:
    clocks = trace.clocks
    if clocks is None or len(clocks.hosts) < 2:
        return []
    order = sorted(range(1, len(clocks.hosts)), key=lambda host: -abs(clocks.offsets_ns[:, host]).max())[
        :MOST_STRAGGLERS
    ]
    return [
        (clocks.hosts[host], seconds_text(clocks.offsets_ns[0, host] / 1e9), seconds_text(clocks.offsets_ns[-1, host] / 1e9),
         f"{plain(clocks.drift_ppm(host))} µs/s" if len(clocks.seconds) > 1 else "", seconds_text(clocks.spread_ns[host] / 1e9))
        for host in order
    ]  # fmt: skip


def segment_rows(run: Run) -> list[Row]:
    """One row for each start of a resumed run, with those whose steps were all repeated, and a sum."""
    found = restarts.segments(run.begun)
    rows = [
        (part.trace.path.name, span(part.trace.steps), shape(part.trace), seconds_text(part.first_step), seconds_text(part.end),
         seconds_text(part.restart_seconds) if place else "", str(len(part.repeated)), seconds_text(part.repeated_seconds))
        for place, part in enumerate(found)
    ]  # fmt: skip
    whole = restarts.lost(found)
    rows.append(("all", "", "", "", seconds_text(whole.whole_seconds), seconds_text(whole.restart_seconds),
                 str(whole.repeated_steps), seconds_text(whole.repeated_seconds)))  # fmt: skip
    return rows


def queue_rows(trace: Trace) -> list[Row]:
    return [
        (queue.name, plain(queue.spans_per_step), seconds_text(queue.busy), *(seconds_text(part) if part else "" for part in
         (queue.kernels, queue.copies, queue.collectives)), f"{100 * queue.idle:.1f} %" if trace.level == "kernels" else "")
        for queue in breakdown.device_queues(trace)
    ]  # fmt: skip


def resumed_rows(run: Run) -> list[Row]:
    """One row for each part of a run that was resumed."""
    rows = []
    for trace in run.parts:
        seconds = next((f"{rate:,.0f}" for steps, rate in run.rates_of_parts if steps[0] in trace.steps), "")
        stage = trace.options.get("zero.stage", "")
        rows.append(
            (trace.path.name, span(trace.steps), shape(trace), stage, trace.attributes.get("started", ""), seconds)
        )
    return rows
