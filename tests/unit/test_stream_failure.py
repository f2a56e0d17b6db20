"""What a failed stream leads to: a new decision, or a human."""

from pathlib import Path

import pytest

from ingest.errors import IngestError
from ingest.pipeline import StaleCheckpointError
from ingest.stream_failure import again

LOG = Path("spark.log")


def test_an_unknown_failure_is_begun_again_and_names_itself_when_that_helps_nothing() -> None:
    ended = again(RuntimeError("trace\njava.util.ServiceConfigurationError: no jar\n at x"), LOG)
    assert "ServiceConfigurationError: no jar" in ended.reason
    assert ended.error.code == "E-STREAM-FAILED"


def test_a_stale_checkpoint_is_decided_anew() -> None:
    ended = again(StaleCheckpointError("7"), LOG)
    assert ended.reason == "the checkpoint does not continue the manifest"
    assert ended.error.code == "E-START-AGAIN"


def test_an_error_that_says_what_to_do_goes_to_the_human_who_can_do_it() -> None:
    with pytest.raises(IngestError, match="another job has the lease"):
        again(IngestError("E-LEASE-LOST", "another job has the lease", remedy="stop one"), LOG)
