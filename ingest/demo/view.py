"""The live view: source, Kafka and lake, rows and lag per table. Plain lines without a terminal."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from ingest.observe.pipeline_status import TableProgress


@dataclass
class Picture:
    """What the view shows now."""

    transactions: int = 0
    missing: int | None = None
    tables: tuple[TableProgress, ...] = ()
    batch: int | None = None
    changes: int = 0
    behind_seconds: float | None = None
    job: str = "not started"
    connect: str = "running"
    memory_bytes: int = 0


@dataclass
class View:
    """Prints what happens. In a terminal the picture is redrawn in place below the story."""

    console: Console = field(default_factory=lambda: Console(highlight=False, soft_wrap=True))
    _live: Live | None = None
    _started: float = field(default_factory=time.monotonic)
    _line_at: float = 0.0

    def chapter(self, text: str) -> None:
        """A new part of the story."""
        self.console.print(f"\n[bold cyan]{self._clock()}[/]  [bold]{text}[/]")

    def say(self, text: str) -> None:
        """One sentence of it."""
        self.console.print(f"[dim]{self._clock()}[/]  ", end="")
        self.console.print(text, markup=False)

    def open(self) -> None:
        """Begin to show the picture."""
        if self.console.is_terminal and self._live is None:
            self._live = Live(console=self.console, refresh_per_second=4, transient=True)
            self._live.start()

    def close(self) -> None:
        """Stop showing it."""
        if self._live:
            self._live.stop()
            self._live = None

    def show(self, picture: Picture) -> None:
        """Draw it; without a terminal, one line every five seconds."""
        if self._live:
            self._live.update(drawn(picture))
        elif time.monotonic() - self._line_at >= 5:
            self._line_at = time.monotonic()
            self.say(_one_line(picture))

    def _clock(self) -> str:
        seconds = int(time.monotonic() - self._started)
        return f"{seconds // 60:02d}:{seconds % 60:02d}"


def _one_line(picture: Picture) -> str:
    waiting = sum(table.pending for table in picture.tables)
    batch = "–" if picture.batch is None else picture.batch
    missing = "?" if picture.missing is None else f"{picture.missing:,}"
    return (
        f"source {picture.transactions:,} transactions · not in Kafka {missing} · "
        f"not applied {waiting:,} · lake batch {batch}, {picture.changes:,} changes"
    )


def drawn(picture: Picture) -> Panel:
    """The picture, as it is drawn in a terminal."""
    stages = Table.grid(padding=(0, 3))
    missing = "?" if picture.missing is None else f"{picture.missing:,}"
    waiting = sum(table.pending for table in picture.tables)
    stages.add_row("[bold]MySQL[/]", "[bold]Kafka[/]", "[bold]Spark job[/]", "[bold]lake[/]")
    batch = "no batch yet" if picture.batch is None else f"batch {picture.batch}"
    stages.add_row(
        f"{picture.transactions:,} transactions",
        f"{missing} transactions to come",
        f"{waiting:,} records to apply",
        f"{picture.changes:,} changes applied",
    )
    behind = picture.behind_seconds
    stages.add_row(
        "running",
        f"Connect {picture.connect}",
        picture.job,
        batch if behind is None else f"{batch}, {behind:.0f} s behind",
    )
    tables = Table(box=None, pad_edge=False)
    tables.add_column("table")
    tables.add_column("version", justify="right")
    tables.add_column("to apply", justify="right")
    for row in picture.tables:
        version = str(row.version) if row.version >= 0 else "–"
        tables.add_row(row.name, version, f"{row.pending:,}")
    memory = Text(f"{picture.memory_bytes / 2**30:.1f} GiB resident in all parts", style="dim")
    return Panel(Group(stages, Text(), tables, memory), title="ingest demo", border_style="cyan")
