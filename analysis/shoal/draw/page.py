# SPDX-License-Identifier: Apache-2.0
"""One HTML page of headings, tables and figures, to which a report is added piece by piece."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Callable
from pathlib import Path

from shoal.draw import figures
from shoal.draw.styles import plt
from shoal.read.run import Run

STYLE = """
body { font: 15px/1.5 system-ui, "DejaVu Sans", sans-serif; color: #222831; max-width: 62rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.5rem; margin-bottom: .2rem } h2 { font-size: 1.1rem; margin: 2.2rem 0 .4rem }
p.lead { color: #6b7280; margin-top: 0 } img { width: 100%; max-width: 58rem; display: block; margin: .4rem 0 1.2rem }
table { border-collapse: collapse; font-size: .9rem; margin: .6rem 0 }
th { text-align: left; color: #6b7280; font-weight: 500; border-bottom: 1px solid #b8bec7 }
th, td { padding: .2rem 1.2rem .2rem 0 } td { border-bottom: 1px solid #e8ebef }
td + td, th + th { text-align: right } table.facts td + td { text-align: left }
.verdict { display: inline-block; padding: .1rem .6rem; border-radius: .3rem; background: #e3f3ee; color: #1f6f5b; font-weight: 600 }
.verdict.bad { background: #fae5e8; color: #a32a3b } .verdict.unknown { background: #e8ebef; color: #4b5563 } .absent { color: #6b7280; font-style: italic }
details { margin-top: 2rem } summary { cursor: pointer; color: #6b7280 }
"""

Row = tuple[str, ...]


class Page:
    """A page that contains its figures. Each figure is also written to the directory, as NAME.png."""

    def __init__(self, run: Run, directory: Path):
        self.run, self.directory = run, directory
        self.body: list[str] = []
        self.absent: list[str] = []

    def heading(self, title: str) -> None:
        self.body.append(f"<h2>{html.escape(title)}</h2>")

    def note_absent(self, what: str, why: str) -> None:
        self.absent.append(f"{what}: {why}")
        self.body.append(f'<p class="absent">{html.escape(why)}</p>')

    def text(self, sentence: str) -> None:
        if sentence:
            self.body.append(f"<p>{html.escape(sentence)}</p>")

    def table(self, head: Row, rows: list[Row], style: str = "") -> None:
        if not rows:
            return
        cells = "".join(f"<th>{html.escape(name)}</th>" for name in head)
        lines = ["<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows]
        self.body.append(f'<table class="{style}"><tr>{cells}</tr>' + "\n".join(lines) + "</table>")

    def folded(self, title: str, head: Row, rows: list[Row]) -> None:
        """A table that shows only its title until the reader opens it."""
        self.body.append(f"<details><summary>{html.escape(title)}</summary>")
        self.table(head, rows, "facts")
        self.body.append("</details>")

    def figure(self, name: str, draw: Callable, source) -> bool:
        """Draws a figure from the source (the run or a trace). Without data, adds a sentence and returns False."""
        if source is None:
            self.note_absent(name, "no trace (trace.h5 is missing; with trace.level = off none is written)")
            return False
        try:
            figure = draw(source)
        except figures.Nothing as nothing:
            self.note_absent(name, str(nothing))
            return False
        image = io.BytesIO()
        figure.savefig(image, format="png")
        plt.close(figure)
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
