from collections.abc import Iterator

import pytest

from tests.support import s3
from tests.support.s3 import S3


@pytest.fixture
def reached(store: S3) -> Iterator[S3]:
    """The same, with its keys in this process's environment."""
    with s3.environment(store.environment()):
        yield store
