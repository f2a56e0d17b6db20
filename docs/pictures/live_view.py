"""Makes ``live_view.svg``, README's picture: what a real ``ingest demo`` shows while it drains after its second kill.

    python docs/pictures/live_view.py

Takes as long as the demo, in a folder of its own.
"""

from __future__ import annotations

import io
import re
import sys
import tempfile
from pathlib import Path

from rich.console import Console, RenderableType
from rich.terminal_theme import TerminalTheme
from rich.text import Text

from ingest.demo import Demo
from ingest.demo.view import Picture, View, drawn

_WIDTH = 112
_PICTURE = Path(__file__).with_suffix(".svg")
_THEME = TerminalTheme(
    (22, 27, 34),
    (201, 209, 217),
    [
        *((72, 79, 88), (255, 123, 114), (63, 185, 80), (210, 153, 34)),
        *((88, 166, 255), (188, 140, 255), (57, 197, 207), (177, 186, 196)),
    ],
)
_FONTS = re.compile(r"@font-face \{.*?\}", re.DOTALL)
"""A reader's browser is to ask nobody for a font."""


class Drawing(View):
    """A view that keeps what it shows, and draws it as long as there is something to apply after the second kill."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[RenderableType] = []
        self.killed = False

    def chapter(self, text: str) -> None:
        """Kept, and shown."""
        self.said.append(Text.from_markup(f"[bold cyan]{self._clock()}[/]  [bold]{text}[/]"))
        super().chapter(text)

    def say(self, text: str) -> None:
        """Kept, and shown."""
        # Not the folder of one machine, nor what a terminal shows in the picture itself.
        if "/" not in text and not text.startswith("source "):
            self.said.append(Text.assemble((f"{self._clock()}  ", "dim"), text))
            self.killed = self.killed or text.startswith("KILL 2")
        super().say(text)

    def show(self, picture: Picture) -> None:
        """Drawn, and shown."""
        if self.killed and sum(table.pending for table in picture.tables) > 0:
            self._draw(picture)
        super().show(picture)

    def _draw(self, picture: Picture) -> None:
        console = Console(record=True, width=_WIDTH, force_terminal=True, file=io.StringIO())
        for one in self.said:
            console.print(one)
        console.print(drawn(picture))
        svg = console.export_svg(title="make demo", theme=_THEME, unique_id="demo")
        _PICTURE.write_text(_FONTS.sub("", svg), encoding="utf-8")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="ingest-picture-") as folder:
        demo = Demo(Path(folder) / "demo", seconds=40)
        demo.view = Drawing()
        demo.execute()
    sys.stdout.write(f"{_PICTURE.name}: {_PICTURE.stat().st_size:,} bytes\n")
