"""Code that is broken on purpose, one place at a time: a test that stays green then has not held what it says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch


@dataclass(frozen=True)
class Mutant:
    """One thing taken out of the code, and who must notice."""

    what: str
    owner: object
    """A module or a class of which ``name`` is replaced."""
    name: str
    make: Callable[[Any], Any]
    """The broken one, of the right one."""
    killed_by: Any
    """The test, or the name of the scenario, that must fail."""
    engine: str = ""
    """The merge engine that it is in the way of; empty: of every one."""

    def __str__(self) -> str:
        return self.what.replace(" ", "_")

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """The code is broken inside."""
        with patch.object(self.owner, self.name, self.make(getattr(self.owner, self.name))):
            yield
