"""A start looks at tables of an object store: one that the store refuses is no table that cannot be read."""

import uuid
from types import SimpleNamespace

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from ingest.lake.delta.spark_table import SparkTable
from ingest.lake.files.object_files import LakeAwayError, LakeDeniedError, asked, opened
from ingest.start import lake_format
from ingest.start.look_at_log import look_at_log
from tests.support import faulty_http, s3


@pytest.fixture
def lake(reached):
    """With a change log and a manifest, each with a checkpoint and a commit behind it."""
    root = f"s3a://{s3.BUCKET}/{uuid.uuid4().hex}"
    for name in ("shop/orders__changes", "_ingest/manifest"):
        for one in range(3):
            write_deltalake(f"{root}/{name}", pa.table({"a": [one]}), mode="append")
            if one == 1:
                DeltaTable(f"{root}/{name}").create_checkpoint()
    return root


@pytest.mark.parametrize("fault", ["denied", "expired"])
@pytest.mark.parametrize("where", ["checkpoint.parquet", "list-type"])
def test_a_log_that_the_store_refuses_for_a_moment_is_not_one_that_cannot_be_read(
    lake, store, fault, where
):
    """What helps there would be to move it away, and all of its history with it."""
    path = f"{lake}/shop/orders__changes"
    pipeline = SimpleNamespace(name="p", lake=SimpleNamespace(path=lake))
    with faulty_http.before(store.port) as faulty:
        faulty.fault = lambda method, path: fault if where in path else "none"
        with (
            s3.environment(store.environment(faulty.endpoint)),
            pytest.raises(LakeDeniedError, match="AccessDenied|ExpiredToken"),
        ):
            look_at_log(SparkTable(None, path), "shop.orders", None, pipeline, 9)


@pytest.mark.parametrize(
    ("fault", "kind"),
    [("denied", LakeDeniedError), ("expired", LakeDeniedError), ("busy", LakeAwayError)],
)
def test_a_checkpoint_that_cannot_be_put_is_the_store_s_failure_and_no_kind_of_data(
    lake, store, fault, kind
):
    path = f"{lake}/shop/orders__changes"
    with faulty_http.before(store.port) as faulty:
        with s3.environment(store.environment(faulty.endpoint)):
            table = opened(path)
        faulty.fault = lambda method, path: fault if method in ("PUT", "POST") else "none"
        with pytest.raises(kind, match="PUT http"), asked(path):
            table.create_checkpoint()


@pytest.mark.parametrize("fault", ["denied", "busy"])
def test_a_manifest_that_the_store_refuses_is_not_passed_over_as_one_that_is_torn(
    lake, store, fault
):
    with faulty_http.before(store.port) as faulty:
        faulty.fault = lambda method, path: fault if "checkpoint.parquet" in path else "none"
        with (
            s3.environment(store.environment(faulty.endpoint)),
            pytest.raises((LakeAwayError, LakeDeniedError)),
        ):
            lake_format.refuse_other(lake)
