"""What a run does when something beside its query goes wrong."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from ingest.errors import IngestError
from ingest.run import Run


def test_a_server_that_is_away_for_a_moment_does_not_pass_for_a_wish_to_stop():
    stopped = []
    query = SimpleNamespace(
        awaitTermination=lambda _: False, isActive=True, stop=lambda: stopped.append(1)
    )

    def look() -> None:
        raise IngestError("E-CONNECT-AWAY", "Connect is away.", remedy="wait", may_pass=True)

    run = Run(SimpleNamespace(), Path("log"), lambda _: None, lambda _: None)
    with pytest.raises(IngestError, match="Connect is away"):
        run._watch(query, SimpleNamespace(look=look), SimpleNamespace(), lambda: None)
    assert stopped == [1]
    assert not run._stop.is_set(), "the run would end in silence, as if asked to"
