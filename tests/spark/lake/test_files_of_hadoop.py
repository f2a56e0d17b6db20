"""Small files by Hadoop's interface alone, without a server: the calls that tests/spark/lake/test_files_in_hdfs.py has a name node answer."""

from ingest.lake.files.storage import Storage


def test_a_file_is_made_once_written_anew_and_read(spark, tmp_path):
    files = Storage(spark, f"file:{tmp_path}")
    assert files.read("a/1.json") is None
    assert files.create("a/1.json", "one")
    assert not files.create("a/1.json", "another")
    assert files.read("a/1.json") == "one"
    files.write("a/1.json", "two – 二")
    files.write("a/0.json", "")
    assert files.read("a/1.json") == "two – 二"
    assert [name for name in files.names("a") if not name.startswith(".")] == ["0.json", "1.json"]
    files.delete("a/1.json")
    assert files.read("a/1.json") is None
