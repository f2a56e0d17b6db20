"""Archives are unpacked alike by all Pythons: Debian 12's knows no filter."""

import io
import os
import tarfile

import pytest

from ingest.local import tar


@pytest.mark.parametrize("trusts_nobody", [True, False])
def test_files_come_as_this_user_s_and_those_alone_that_are_asked_for(
    tmp_path, monkeypatch, trusts_nobody
):
    if trusts_nobody and not hasattr(tarfile, "data_filter"):
        pytest.skip("a Python without it")
    monkeypatch.setattr(tar, "_TRUSTS_NOBODY", trusts_nobody)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name in ("bin/run", "README"):
            member = tarfile.TarInfo(name)
            member.size, member.mode, member.uid, member.gid = 3, 0o755, 7161, 31415
            member.uname = "nobody"
            archive.addfile(member, io.BytesIO(b"yes"))
        link = tarfile.TarInfo("bin/link")
        link.type, link.linkname = tarfile.SYMTYPE, "run"
        archive.addfile(link)
    packed.seek(0)
    with tarfile.open(fileobj=packed) as archive:
        wanted = [one for one in archive.getmembers() if one.name.startswith("bin/")]
        tar.unpack(archive, tmp_path, wanted)
    run = tmp_path / "bin" / "run"
    assert (tmp_path / "bin" / "link").read_bytes() == run.read_bytes() == b"yes"
    assert (run.stat().st_uid, run.stat().st_gid) == (os.getuid(), os.getgid())
    assert os.access(run, os.X_OK)
    assert not (tmp_path / "README").exists()
