"""One table poisoned among eight busy ones, in ten ways, each brought about for real.

    python -m tests.poison [--only file_gone,cut_off_commit] [--list] [--seconds 40] [--rate 200] [--seed 36]

The eight are written at a steady rate all the time. Of each way it is measured how long their commits take to be readable in
the lake, before it and while the ninth table is poisoned; what `ingest status` says of the ninth is kept, what it says is done,
and in the end `ingest audit` has to call all nine equal. The exit code is 1 where it does not, where the eight stood
still, or where nobody named the ninth. How much slower the eight were is told, and more than 1.2 times is called so: a
machine that does other work measures that. Where a table cannot be left out (STOPPING), the run has to say which it is and what helps.
"""

from tests.poison import by_commits, by_the_connector, by_values
from tests.poison.ward import WAYS

__all__ = ["WAYS", "by_commits", "by_the_connector", "by_values"]
