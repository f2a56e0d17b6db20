"""Makes docs/performance.md's tables and pictures of the results in docs/results; takes new results there.

    make figures                                                  tables and pictures
    .venv/bin/python -m bench.figures --take FILE.json --as P2    a benchmark's file becomes a result, and the tables
    .venv/bin/python -m bench.figures --tables                    tables alone: they need no matplotlib

A benchmark writes FILE.json with ``--json``. What a question wants to be asked is in `bench.figures.questions`.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
from pathlib import Path

from bench.figures.page import with_results
from bench.figures.pictures import picture
from bench.figures.questions import BY_NAME, QUESTIONS
from bench.figures.results import FOLDER, Result, load, save
from bench.figures.take import Unfit, taken

PAGE = FOLDER.parent / "performance.md"
PICTURES = FOLDER.parent / "pictures"


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.figures",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--take", type=Path, help="a file that a benchmark has written with --json")
    parser.add_argument("--as", dest="question", choices=BY_NAME, help="the question it answers")
    parser.add_argument("--tables", action="store_true", help="the page's tables, no pictures")
    given = parser.parse_args()
    if (given.take is None) != (given.question is None):
        parser.error("--take FILE and --as QUESTION belong together")
    if given.take:
        try:
            print(take(given.take, given.question, FOLDER))
        except Unfit as why:
            sys.exit(str(why))
    found = {one.name: load(one.name) for one in QUESTIONS}
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(with_results(text, QUESTIONS, found), encoding="utf-8")
    print(f"{PAGE.name}: its tables are those of {FOLDER.name}")
    if given.tables or given.take:
        print("pictures: make figures")
    else:
        draw(found)


def take(file: Path, name: str, folder: Path) -> str:
    """Put a benchmark's figures in the place of those that the question had; says what was put. Raises ``Unfit``."""
    found = taken(BY_NAME[name], json.loads(file.read_text(encoding="utf-8")))
    is_new = not (folder / f"{name}.json").exists()
    before = {} if is_new else load(name, folder).runs
    saved = save(Result(question=name, runs={**before, **found}), folder)
    run, cases = next(iter(found.values())), ", ".join(found)
    return f"{saved.name}: {cases}, measured {run.at} at {run.commit or 'an unknown commit'}"


def draw(found: dict[str, Result]) -> None:
    """One SVG a question."""
    if importlib.util.find_spec("matplotlib") is None:
        sys.exit("pictures are drawn by matplotlib, which is not here: make figures")
    from bench.figures.drawing import svg

    for question in QUESTIONS:
        file = PICTURES / f"{question.name}.svg"
        file.write_text(svg(picture(question, found[question.name])), encoding="utf-8")
        print(f"{file.name}: {file.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
