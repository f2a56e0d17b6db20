"""The results that answer a question, one file each in docs/results: medians, rounds, commit, machine. Pure but for files."""

from __future__ import annotations

import json
from pathlib import Path

from pydantic import BaseModel, ConfigDict

FOLDER = Path(__file__).parents[2] / "docs" / "results"


class Run(BaseModel):
    """One run of a benchmark. Contestants, then measures: ``medians["stock"]["seconds"]``.

    ``commit`` is empty where nobody wrote it down; ``page`` is then the commit that brought the figures to
    docs/performance.md, from which they were copied, and ``at`` the day of that commit. ``rounds`` has the figures of
    each round where they were kept; ``counted`` says how many rounds there were in any case.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    command: str
    at: str
    commit: str = ""
    page: str = ""
    machine: dict[str, int | str]
    note: str = ""
    counted: dict[str, int]
    medians: dict[str, dict[str, float]]
    rounds: dict[str, dict[str, list[float]]] = {}


class Result(BaseModel):
    """All that answers one question. ``runs``: by the name of the case (`bench.figures.questions.Case`)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    question: str
    runs: dict[str, Run]

    def of(self, case: str, contestant: str, measure: str) -> float:
        """A median. Raises ``KeyError`` where it was not measured."""
        return self.runs[case].medians[contestant][measure]


def load(name: str, folder: Path = FOLDER) -> Result:
    """A question's results."""
    return Result.model_validate_json((folder / f"{name}.json").read_text(encoding="utf-8"))


def save(result: Result, folder: Path = FOLDER) -> Path:
    """Write them where ``load`` finds them."""
    file = folder / f"{result.question}.json"
    text = json.dumps(result.model_dump(exclude_defaults=True), indent=1, ensure_ascii=False)
    file.write_text(f"{text}\n", encoding="utf-8")
    return file
