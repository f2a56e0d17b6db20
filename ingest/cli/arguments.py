"""Arguments that many commands take."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

PipelineFile = Annotated[Path, typer.Argument(metavar="FILE", help="The pipeline file (YAML).")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
