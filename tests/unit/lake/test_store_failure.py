"""`store_failure`: texts as obstore and delta-rs 1.6.6 raise them before a server that refuses, or is away."""

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from ingest.lake.delta import delta_sql
from ingest.lake.files import store_failure
from ingest.lake.files.object_files import LakeAwayError, LakeDeniedError, asked

AT = "http://127.0.0.1:9000/lake/t/_delta_log"
REFUSED = "Server returned non-2xx status code: 403 Forbidden: <Error><Code>AccessDenied</Code><Message>key K</Message></Error>"
LISTED = f"""Kernel error -> Generic S3 error
          \x1b[31m↳\x1b[0m Error performing list request
           \x1b[31m↳\x1b[0m Error performing GET http://127.0.0.1:9000/lake?list-type=2&prefix=t in 42.46µs - Server returned non-2xx status code
            \x1b[31m↳\x1b[0m 403 Forbidden
             \x1b[31m↳\x1b[0m {REFUSED[REFUSED.index("<") :]}
"""
GONE = """Kernel error -> Generic S3 error
          \x1b[31m↳\x1b[0m Error performing GET http://127.0.0.1:9000/lake/t in 3.1s, after 10 retries, max_retries
           \x1b[31m↳\x1b[0m 10, retry_timeout
            \x1b[31m↳\x1b[0m 180s  - HTTP error
             \x1b[31m↳\x1b[0m tcp connect error
"""
CHECKPOINT = f"Kernel error: Arrow error: External: The operation lacked the necessary privileges to complete for path t: Error performing GET {AT} in 4ms - {REFUSED}"
EXPIRED = f"Kernel error: Arrow error: External: Generic S3 error: Error performing GET {AT} in 4ms - Server returned non-2xx status code: 400 Bad Request: <Error><Code>ExpiredToken</Code></Error>"
VACUUM = f"Generic error: Failed to read delta log object: Generic S3 error: Error performing list request: Error performing GET {AT}?list-type=2 in 4ms - {REFUSED}"
QUERY = (
    "External error: Parquet error: Parquet error: Failed to fetch metadata for file t/part-0.zstd.parquet: Object Store error: "
    f"Generic S3 error: Error performing GET {AT} in 30.0s - HTTP error: error sending request"
)
OBSTORE = f"Generic S3 error: Error performing PUT {AT} in 1s, after 4 retries, max_retries: 4, retry_timeout: 20s  - Server returned non-2xx status code: 503 Service Unavailable: \n\nDebug source:\nGeneric {{}}"

SAID = {
    LISTED: "GET http://127.0.0.1:9000/lake: Server returned non-2xx status code: 403 Forbidden: AccessDenied",
    GONE: "GET http://127.0.0.1:9000/lake/t: HTTP error: tcp connect error",
    CHECKPOINT: f"GET {AT}: Server returned non-2xx status code: 403 Forbidden: AccessDenied",
    EXPIRED: f"GET {AT}: Server returned non-2xx status code: 400 Bad Request: ExpiredToken",
    VACUUM: f"GET {AT}: Server returned non-2xx status code: 403 Forbidden: AccessDenied",
    QUERY: f"GET {AT}: HTTP error: error sending request",
    OBSTORE: f"PUT {AT}: Server returned non-2xx status code: 503 Service Unavailable",
}


@pytest.mark.parametrize("text", SAID)
def test_a_store_s_failure_is_told_by_its_text_and_says_what_was_asked_last(text):
    failure = DeltaError(text)
    assert store_failure.is_of_a_store(failure)
    assert store_failure.said(failure) == SAID[text]
    assert store_failure.is_denial(failure) == (text not in (GONE, QUERY, OBSTORE))


@pytest.mark.parametrize(
    "text",
    [
        f"Cast error: Cannot cast string '{EXPIRED}' to value of Int64 type",
        f"Arrow error: Parser error: Error while parsing value {EXPIRED} for column 1",
        f"Generic error: Error partitioning record batch: {EXPIRED}",
        "Invalid JSON in log record, version 3: Generic S3 error: Error performing GET http://a in 1s - b",
        "Kernel error: Arrow error: External: Object at location t/3.checkpoint.parquet not found: 404 Not Found",
        "Generic error: no such table",
    ],
)
def test_a_value_of_a_row_makes_no_failure_one_of_the_store(text):
    assert not store_failure.is_of_a_store(DeltaError(text))
    with pytest.raises(DeltaError), asked("s3a://lake/t"):
        raise DeltaError(text)


def test_a_folder_of_this_machine_is_no_store_whatever_a_failure_says(tmp_path):
    with pytest.raises(DeltaError), asked(str(tmp_path)):
        raise DeltaError(EXPIRED)


@pytest.mark.parametrize(("text", "kind"), [(QUERY, LakeAwayError), (EXPIRED, LakeDeniedError)])
def test_a_query_before_a_store_that_refuses_data_files_says_so(monkeypatch, text, kind):
    """A bare ``Exception`` of delta-rs's (1.6.6)."""

    class Refused:
        def register(self, name, table):
            return self

        def execute(self, sql):
            raise Exception(text)  # noqa: TRY002 - as delta-rs does

    class Table(DeltaTable):
        table_uri = "s3a://lake/t/"

        def __init__(self):
            pass

    monkeypatch.setattr(delta_sql, "QueryBuilder", Refused)
    with pytest.raises(kind, match="GET http"):
        delta_sql.queried(Table(), "SELECT 1")
