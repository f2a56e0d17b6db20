"""A question's picture as SVG, by matplotlib, which is not among the packages of .venv: ``make figures`` brings it.

The same picture is the same bytes: no date, ids from a fixed salt. Words stay text, so that the reader's own font shows
them and a search finds them; each bar bears its number as an id.
"""

from __future__ import annotations

import io
import textwrap
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from bench.figures.pictures import Bar, Picture

OURS, OTHERS = "#0072b2", "#b0b7bf"
"""The blue of Okabe and Ito's palette, and a grey: told apart by everybody, and in print."""
INK, FAINT, CARD, EDGE = "#1f2328", "#59636e", "#ffffff", "#d1d9e0"
WIDTH, ROW, HEADING, LINE, ABOVE, BELOW = 8.8, 0.31, 0.36, 0.22, 0.6, 0.52
"""Inches: of the picture, of a bar's row, of a group's heading, of a line of the answer, of the title, of what stands below."""
LABELS, TEXTS = 2.75, 2.1
"""Inches left of the bars for their labels, and right of the longest for its text."""
SETTINGS: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "ingest",
    "font.family": ["sans-serif"],
    "font.sans-serif": ["Helvetica", "Arial", "DejaVu Sans"],
    "font.size": 10.5,
}


def svg(picture: Picture) -> str:
    """Its text."""
    with mpl.rc_context(SETTINGS):
        file = io.StringIO()
        about = {
            "Title": picture.title,
            "Description": f"sha256:{picture.digest}",
            "Date": None,
            "Creator": None,
        }
        figure(picture).savefig(file, format="svg", metadata=about)
    # Lines without blanks at their ends, as git wants them.
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines()) + "\n"


def figure(picture: Picture) -> Figure:
    """The drawing: titles, bars from the top down, what their length is."""
    rows = sum(len(group.bars) for group in picture.groups)
    headings = sum(bool(group.heading) for group in picture.groups)
    answer = textwrap.wrap(picture.answer, 92)
    down = ABOVE + len(answer) * LINE + 0.12
    height = down + rows * ROW + headings * HEADING + BELOW
    drawn = Figure(figsize=(WIDTH, height), facecolor=CARD)
    # One unit is an inch, from the upper left corner down.
    axes = drawn.add_axes((0, 0, 1, 1), xlim=(0, WIDTH), ylim=(height, 0))
    axes.axis("off")
    axes.add_patch(Rectangle((0.02, 0.02), WIDTH - 0.04, height - 0.04, fill=False, edgecolor=EDGE))
    axes.text(0.25, 0.38, picture.title, fontsize=14, fontweight="bold", color=INK)
    for number, line in enumerate(answer):
        axes.text(0.25, ABOVE + 0.08 + number * LINE, line, fontsize=11, color=INK)
    longest = max(bar.length for group in picture.groups for bar in group.bars)
    inch = (WIDTH - LABELS - TEXTS) / longest
    number = 0
    for group in picture.groups:
        if group.heading:
            axes.text(0.25, down + HEADING * 0.68, group.heading, color=INK, fontweight="bold")
            down += HEADING
        foot = down + len(group.bars) * ROW
        axes.plot([LABELS, LABELS], [down, foot], color=FAINT, linewidth=0.8)
        for bar in group.bars:
            _row(axes, bar, number, down, inch)
            down, number = down + ROW, number + 1
    axes.text(LABELS, down + 0.28, picture.axis, fontsize=9.5, color=FAINT)
    return drawn


def _row(axes: Axes, bar: Bar, number: int, down: float, inch: float) -> None:
    """A bar with its words. ``down``: where its row begins; ``inch``: inches for a length of one."""
    color, ink, weight = (OURS, INK, "bold") if bar.ours else (OTHERS, FAINT, "normal")
    long, base = (
        bar.length * inch,
        down + ROW / 2 + 0.053,
    )  # half a capital's height below the middle
    drawn = Rectangle((LABELS, down + ROW * 0.12), long, ROW * 0.76, facecolor=color, linewidth=0)
    drawn.set_gid(f"bar-{number}")
    axes.add_patch(drawn)
    words: dict[str, Any] = {"color": ink, "fontweight": weight}
    axes.text(LABELS - 0.1, base, bar.label, ha="right", **words)
    axes.text(LABELS + long + 0.08, base, bar.text, ha="left", **words)
