"""What `bench.endurance` found, as a picture of small panels: figures of files and processes, batch by batch.

    PYTHONPATH=.venv/figures:. .venv/bin/python -m bench.figures.over_time endurance.json docs/pictures/endurance.svg

matplotlib is not among the packages of .venv (`bench.figures.drawing`); `make figures` brings it.
"""

from __future__ import annotations

import argparse
import io
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bench import watched
from bench.figures.drawing import CARD, EDGE, FAINT, INK, OURS, SETTINGS
from bench.watched import Series

COLUMNS, WIDE, HIGH, ABOVE = 3, 3.1, 1.55, 1.0
"""Panels in a row; inches of a panel, and of what stands above all of them."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("found", type=Path, help="what the benchmark wrote with --json")
    parser.add_argument("picture", type=Path, help="an SVG")
    given = parser.parse_args()
    found = json.loads(given.found.read_text(encoding="utf-8"))
    given.picture.write_text(svg(found), encoding="utf-8")


def svg(found: Mapping[str, Any]) -> str:
    """The picture's text. The same findings are the same bytes."""
    with mpl.rc_context({**SETTINGS, "font.size": 8.5}):
        file = io.StringIO()
        about = {"Title": _title(found), "Date": None, "Creator": None}
        figure(found).savefig(file, format="svg", metadata=about)
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines()) + "\n"


def figure(found: Mapping[str, Any]) -> Figure:
    """A panel for each figure, kills as grey lines."""
    panels = watched.series(found["looks"])
    rows = math.ceil(len(panels) / COLUMNS)
    height = ABOVE + rows * HIGH
    drawn = Figure(figsize=(COLUMNS * WIDE, height), facecolor=CARD, edgecolor=EDGE)
    top = height - 0.35
    drawn.text(0.02, top / height, _title(found), fontsize=13, fontweight="bold", color=INK)
    drawn.text(0.02, (top - 0.27) / height, _how(found), fontsize=9.5, color=FAINT)
    for number, one in enumerate(panels):
        row, column = divmod(number, COLUMNS)
        box = (
            (column * WIDE + 0.5) / (COLUMNS * WIDE),
            (height - ABOVE - (row + 1) * HIGH + 0.38) / height,
            (WIDE - 0.65) / (COLUMNS * WIDE),
            (HIGH - 0.62) / height,
        )
        panel(drawn.add_axes(box), one, found["kills"])
    return drawn


def panel(axes: Axes, one: Series, kills: Sequence[int]) -> None:
    """One figure over the batches, from zero on."""
    for kill in kills:
        axes.axvline(kill, color=EDGE, linewidth=0.8)
    axes.plot(one.at, one.values, color=OURS, linewidth=1.1)
    axes.set_title(one.name, fontsize=9, color=INK, loc="left", pad=3)
    axes.set_ylim(0, max(one.values) * 1.15 or 1)
    axes.tick_params(labelsize=7.5, colors=FAINT, length=2)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(EDGE)


def _title(found: Mapping[str, Any]) -> str:
    return f"{len(found['batches']):,} batches: what files and processes become"


def _how(found: Mapping[str, Any]) -> str:
    clock = (
        f", a clock that goes on by {found['tick']:g} s a batch"
        if found["through"] == "lake"
        else ""
    )
    return (
        f"bench.endurance, seed {found['seed']}, {len(found['kills'])} kills (grey lines){clock}; "
        f"{found['at'][:10]} at {found['commit'][:7]}"
    )


if __name__ == "__main__":
    main()
