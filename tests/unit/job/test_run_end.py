"""How what goes on with Spark ends where Spark itself has ended."""

import pytest

from ingest.job import run_end
from ingest.model.errors import Exit, IngestError


@pytest.mark.parametrize("means", [run_end.OF_A_RUN, run_end.OF_AN_AUDIT])
def test_spark_s_death_is_told_as_what_it_is_and_what_it_means_there(monkeypatch, tmp_path, means):
    monkeypatch.setattr(run_end, "has_died", lambda _: True)
    log = tmp_path / "spark.log"
    with pytest.raises(IngestError) as told, run_end.told(log, "lake", means):
        raise ConnectionRefusedError(111, "Connection refused")
    assert (told.value.code, told.value.exit_code) == ("E-SPARK-DIED", Exit.FAILED)
    assert told.value.means == means
    assert "spark.driver_memory" in told.value.remedy
    assert "Connection refused" in "".join(one.read_text() for one in tmp_path.iterdir())
