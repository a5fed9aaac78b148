#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""analysis/scaling.py on a study whose every figure is known: the table, the figures, and files that are no study."""

import json
import shutil
import tempfile
import unittest
from pathlib import Path

from inside import outside

from scripts import script  # isort: skip
from shoal.draw import figures_scaling
from shoal.draw.figures import Nothing
from shoal.draw.styles import plt
from shoal.times.study import read_study

TOKENS = 1440  # of a step


def point(strategy, scaling, ranks, step_s, predicted_s=None, memory=3 * 2**20, **more):
    """A point on as many nodes as ranks."""
    measured = {
        "step_s": {"median": 0.1, "mean": step_s, "min": 0.1, "max": 9.0},
        "tokens_per_s": TOKENS / (step_s or 1),
        "node_seconds_per_token": ranks * (step_s or 1) / TOKENS,
        "memory_bytes": memory,
    }
    return {
        "name": f"{strategy}-{ranks}",
        "strategy": strategy,
        "scalings": scaling,
        "nodes": ranks,
        "ranks_per_node": 1,
        "ranks": ranks,
        "repeat": 1,
        "micro": ranks,
        "global": 8,
        "tokens_per_step": TOKENS,
        "predicted": {"memory_bytes": memory, "step_s": predicted_s, "exposed_s": predicted_s and 0.1 * predicted_s},
        "state": "done" if step_s else "queued",
        "measured": measured if step_s else None,
        **more,
    }


POINTS = [
    point("stage 0", ["strong", "weak"], 1, 1.0, 1.0),
    point("stage 0", ["strong"], 2, 0.5, 0.6),
    point("stage 0", ["strong"], 4, None),
    point("stage <b>3</b> \x1b[2J", ["strong"], 1, 1.0, 1.0),
    point("stage <b>3</b> \x1b[2J", ["strong"], 2, 0.4, 0.5),  # 1.25 times as fast as twice the ranks should be
    point("stage <b>3</b> \x1b[2J", ["strong"], 2, 0.2, 0.5, repeat=2, name="again"),
]


class Scaling(unittest.TestCase):
    def setUp(self):
        self.dir = Path(tempfile.mkdtemp(prefix="shoal-test-"))
        self.addCleanup(shutil.rmtree, self.dir)

    def study(self, points=POINTS, **changes):
        content = {
            "format": "shoal-study",
            "format_version": 1,
            "deck": "a.cfg",
            "machine": {"device": "an <abacus>"},
            "study": {"system": "local"},
            "points": points,
            **changes,
        }
        (self.dir / "study.json").write_text(json.dumps(content))
        return self.dir

    def test_the_table(self):
        done = script("scaling.py", self.study())
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = [[cell for cell in line.split("  ") if cell] for line in done.stdout.splitlines()]
        rows = [[cell.strip() for cell in row] for row in rows if row and row[0].startswith("stage")]
        self.assertEqual(len(rows), 6)
        by_name = {(row[0], row[1], row[3]): row for row in rows}
        half = by_name["stage 0", "strong", "2"]
        self.assertEqual(half[8:], ["0.5", "0.6", "+20.0", "2,880", "1", "0.833", "-", "0.06", "694.4", "833.3"])
        self.assertEqual(by_name["stage 0", "strong", "4"][6], "queued")
        escaped = "stage <b>3</b> \\x1b[2J"
        self.assertEqual(by_name[escaped, "strong", "2"][8], "0.3")  # the median of two repeats
        self.assertEqual(by_name[escaped, "strong", "2"][12], "1.67")
        self.assertIn("1 run is not done", done.stdout)
        self.assertIn("not drawn: exposed: communication that is not hidden: no point has a trace", done.stdout)
        page = (self.dir / "report" / "report.html").read_text()
        self.assertIn("stage &lt;b&gt;3&lt;/b&gt;", page)
        self.assertNotIn("<b>3", page)
        self.assertNotIn("<abacus>", page)

    def test_predictions_are_hollow_and_equal_curves_are_both_visible(self):
        same = [point(name, ["strong"], ranks, 1.0 / ranks, 1.0) for name in ("one", "other") for ranks in (1, 2, 4)]
        study = read_study(self.study(same))
        figure = figures_scaling.draw(study, figures_scaling.QUANTITIES[0])
        self.addCleanup(plt.close, figure)
        axes = figure.axes[0]
        self.assertEqual([label.get_text() for label in axes.get_xticklabels()], ["1", "2", "4"])
        solid = [
            line for line in axes.lines if line.get_markersize() and line.get_ls() == "-" and len(line.get_xdata())
        ]
        hollow = [line for line in axes.lines if line.get_mfc() == "none" and len(line.get_xdata())]
        self.assertEqual([list(line.get_ydata()) for line in hollow], [[TOKENS] * 3] * 2)
        dashed = [line for line in axes.lines if line.get_ls() == "--"]
        self.assertEqual((len(solid), len(dashed)), (1, 1))
        self.assertEqual(list(solid[0].get_ydata()), list(dashed[0].get_ydata()))
        self.assertNotEqual(solid[0].get_color(), dashed[0].get_color())
        self.assertIn("hollow: predicted", [text.get_text() for text in axes.get_legend().get_texts()])
        for text in axes.get_yticklabels():
            self.assertNotIn("e+", text.get_text())

    def test_no_panel_cuts_off_the_curves_of_the_other(self):
        """The panels share an axis; the curves of either scaling are three times as high as those of the other."""
        for high, low in (("weak", "strong"), ("strong", "weak")):
            points = [
                point("stage 0", [scaling], ranks, factor * (1 + 0.1 * ranks), factor * 1.2, factor * 2**20,
                      name=f"{scaling}-{ranks}", **{"global": 8 * ranks if scaling == "weak" else 8})
                for scaling, factor in ((high, 3.0), (low, 1.0)) for ranks in (1, 2, 4)
            ]  # fmt: skip
            study = read_study(self.study(points))
            for quantity in figures_scaling.QUANTITIES:
                with self.subTest(f"{high}: {quantity.name}"):
                    try:
                        figure = figures_scaling.draw(study, quantity)
                    except Nothing:
                        self.assertEqual(quantity.name, "exposed")
                        continue
                    self.addCleanup(plt.close, figure)
                    self.assertEqual(outside(figure), [])
                    self.assertEqual(figure.axes[0].get_ylim(), figure.axes[1].get_ylim())

    def test_weak_curves_have_one_batch_per_rank(self):
        """The study began on 2 and 4 nodes, and was extended by 1 node, from which the batch then grows."""
        grid = {(1, 8): 1.0, (2, 16): 1.0, (4, 32): 1.0, (2, 8): 0.6, (4, 16): 0.6}
        points = [
            point("stage 0", ["weak"], ranks, step_s, tokens_per_step=180 * batch, **{"global": batch})
            for (ranks, batch), step_s in grid.items()
        ]
        curves = read_study(self.study(points, options={"batch.global": "8"})).curves
        self.assertEqual([curve.strategy for curve in curves], [f"stage 0 ({n} sequences per rank)" for n in (8, 4)])
        self.assertEqual([[(p.ranks, p.batch) for p in curve.points] for curve in curves],
                         [[(1, 8), (2, 16), (4, 32)], [(2, 8), (4, 16)]])  # fmt: skip
        for curve in curves:
            self.assertEqual(
                [curve.efficiency(p, lambda each: each.step) for p in curve.points], [1] * len(curve.points)
            )
        self.assertEqual(len(read_study(self.study(points[:3], options={"batch.global": "8"})).curves), 1)
        # Without a global batch the batch per rank is the micro-batch, which differs along one curve.
        [curve] = read_study(self.study([points[0], points[4]], options={"batch.global": "auto"})).curves
        self.assertEqual((curve.strategy, len(curve.points)), ("stage 0", 2))
        table = script("scaling.py", self.study(points))
        self.assertEqual(table.stdout.count("\nstage 0 (4 sequences per rank)"), 2, table.stderr)

    def test_a_study_without_results_is_a_table_only(self):
        done = script("scaling.py", self.study([point("stage 0", ["weak"], 1, None)]))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.count("not drawn"), 6)

    def test_bad_input(self):
        self.refused("no study.json")
        (self.dir / "study.json").write_text("{")
        self.refused("not JSON")
        self.study(format="other")
        self.refused("no results of `shoal study`")
        self.study([])
        self.refused("has no points")
        for damage in ({"ranks": "x"}, {"measured": {}}, {"tokens_per_step": -1}, {"predicted": 3}, {"scalings": None}):
            self.study([{**POINTS[0], **damage}])
            self.refused("is damaged")

    def refused(self, why):
        done = script("scaling.py", self.dir)
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertIn(why, done.stderr)


if __name__ == "__main__":
    unittest.main()
