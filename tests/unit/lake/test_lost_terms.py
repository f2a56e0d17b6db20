"""A lease's folder from which terms are gone: swept, removed by somebody, or an older copy."""

import shutil

import pytest

from ingest.lake.files.lease import Lease, LeaseLostError
from ingest.lake.files.storage import LocalFiles
from ingest.lake.manifest.manifest_reader import newest_term
from ingest.model.errors import IngestError
from tests.unit.lake.conftest import acquire

pytestmark = pytest.mark.usefixtures("quick_lease")


def test_a_folder_that_was_removed_or_is_an_older_copy_begins_above_what_the_lake_has_seen(
    make_lease, tmp_path
):
    """By a lower term no table would take a commit: the job would say that another had taken over, at each of some ninety starts."""
    said = []
    living = make_lease()
    assert acquire(living).number == 1
    shutil.rmtree(tmp_path)
    tmp_path.mkdir()
    term = acquire(make_lease(written=90, said=said))
    assert term.number > 90
    assert term.fence, "whoever held the last one may live"
    assert "it is lost or an older copy" in said[0]
    with pytest.raises(LeaseLostError):
        living.refuse_lost()


def test_a_lake_that_knows_of_no_later_term_is_followed_as_ever(make_lease):
    first = make_lease(written=0)
    assert acquire(first).number == 1
    first.release()
    assert acquire(make_lease(written=1)).number == 2


def test_a_term_that_was_taken_and_published_while_the_lake_was_asked_is_no_lost_one(
    make_lease, tmp_path
):
    LocalFiles(str(tmp_path)).write("1.json", "{}")
    LocalFiles(str(tmp_path)).write("1.beat", "released")
    other = make_lease()

    def written():
        if not other._term:
            acquire(other)
        return 2

    late = Lease(LocalFiles(str(tmp_path)), lambda _: None, written=written)
    with pytest.raises(IngestError, match="already keeps this lake"):
        acquire(late)
    other.refuse_lost()


def test_a_lake_without_a_manifest_has_seen_no_term(tmp_path):
    assert newest_term(str(tmp_path)) == 0
    torn = tmp_path / "_ingest" / "manifest" / "_delta_log"
    torn.mkdir(parents=True)
    (torn / f"{0:020d}.json").write_text('{"protocol": {"minRead')
    assert newest_term(str(tmp_path)) == 0, "a start mends it, which needs the lease first"


class Suspended(LocalFiles):
    """A candidate stands still right before it makes the term's file; ``then`` happens meanwhile."""

    def __init__(self, root, then):
        super().__init__(root)
        self.then = then

    def create(self, name, text):
        then, self.then = self.then, lambda: None
        then()
        return super().create(name, text)


def test_who_stood_still_wins_no_term_that_is_over_and_swept(make_lease, tmp_path):
    acquire(make_lease())
    holder = []

    def others():
        for _ in range(3):
            holder.append(make_lease())
            acquire(holder[-1], standby=True)
            if len(holder) < 3:
                holder[-1].release()

    LocalFiles(str(tmp_path)).write("1.beat", "released")
    late = Lease(Suspended(str(tmp_path), others), lambda _: None)
    with pytest.raises(IngestError, match="already keeps this lake"):
        acquire(late)
    assert not (tmp_path / "2.json").exists()
    holder[-1].refuse_lost()
