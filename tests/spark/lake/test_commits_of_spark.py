"""A commit of Spark's on a local disk takes nobody else's place."""

import json
import runpy

import pytest
from delta.exceptions import ConcurrentTransactionException
from py4j.protocol import Py4JJavaError

from ingest.config.resources import resource
from ingest.lake.delta import delta_log, spark_transaction
from ingest.lake.delta.commit import Committer, Identity, sibling
from ingest.lake.delta.spark_table import SparkTable
from ingest.lake.files.lease import LeaseLostError
from ingest.model.names import Marker

MEANWHILE = r"""
import java.io.IOException;
import java.net.URI;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.Iterator;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.DelegateToFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;

/** A disk on which another writer links its commit (`test.others`) right before a file gets its name by a rename. */
public class Meanwhile extends DelegateToFileSystem {
    public Meanwhile(URI uri, Configuration conf) throws Exception {
        super(uri, new Renaming(), conf, "file", false);
    }

    static void link(String others, String to) throws IOException {
        try {
            Files.createLink(Paths.get(to), Paths.get(others));
            Files.createFile(Paths.get(others + ".done"));
        } catch (FileAlreadyExistsException ours) {
        }
    }

    static class Renaming extends RawLocalFileSystem {
        public boolean rename(Path from, Path to) throws IOException {
            String others = getConf().get("test.others");
            if (to.getName().endsWith(".json")) link(others, to.toUri().getPath());
            return super.rename(from, to);
        }
    }

    /** Actions of a commit; when the last one is asked for, the very file that they are written to has the commit's name: a server has made a link, and its answer is lost. */
    public static class Linked extends Last {
        public Linked(String action, String others, String to) {
            super(action, others, to);
        }

        void meanwhile() throws IOException {
            java.io.File[] parts = new java.io.File(to).getParentFile().listFiles();
            for (int i = 0; i < parts.length; i++) {
                if (parts[i].getName().endsWith(".part")) Files.createLink(Paths.get(to), parts[i].toPath());
            }
        }
    }

    /** Actions of a commit; when the last one is asked for, another writer has linked its own. */
    public static class Last implements Iterator {
        final String action, others, to;
        private boolean given;

        public Last(String action, String others, String to) {
            this.action = action;
            this.others = others;
            this.to = to;
        }

        public boolean hasNext() {
            return !given;
        }

        public Object next() {
            given = true;
            try {
                meanwhile();
            } catch (IOException failure) {
                throw new RuntimeException(failure);
            }
            return action;
        }

        void meanwhile() throws IOException {
            link(others, to);
        }
    }
}
"""


@pytest.fixture(scope="module")
def meanwhile(spark, tmp_path_factory):
    """The classes above, by Spark's own compiler, where Hadoop finds classes; returns who loads them."""
    compiler = spark._jvm.org.codehaus.janino.SimpleCompiler()
    loader = spark._jsc.hadoopConfiguration().getClassLoader()
    compiler.setParentClassLoader(loader)
    compiler.cook(MEANWHILE)
    folder = tmp_path_factory.mktemp("classes")
    for name, code in dict(compiler.getBytecodes()).items():
        (folder / f"{name}.class").write_bytes(code)
    loader.addURL(spark._jvm.java.net.URL(f"file:{folder}/"))
    return loader


class Race:
    """Version 1 of a table: wanted by Spark, in the way in which it commits there, and by another writer, which is as early
    as it can be and still come after Spark's last look.
    """

    def __init__(self, spark, folder):
        self.table = folder / "t"
        spark.range(1).write.format("delta").save(str(self.table))
        self.others = folder / "others"
        self.others.write_text('{"of":"another"}\n')
        self._jvm = spark._jvm
        self.file = self.table / delta_log.commit_name(1)
        self.session = sibling(spark)
        self.session.conf.set("fs.AbstractFileSystem.file.impl", "Meanwhile")
        self.session.conf.set("test.others", str(self.others))

    def actions(self, loader, name):
        """Spark's, in the middle of which something happens."""
        (made,) = loader.loadClass(f"Meanwhile${name}").getConstructors()
        given = self.session.sparkContext._gateway.new_array(self._jvm.Object, 3)
        given[0], given[1], given[2] = '{"of":"spark"}', str(self.others), str(self.file)
        return made.newInstance(given)

    def commit(self, actions):
        """True where Spark takes version 1 for its own."""
        log = spark_transaction.delta_log(self.session, str(self.table))
        conf = log.newDeltaHadoopConf()
        path = self._jvm.org.apache.hadoop.fs.Path(f"file:{self.file}")
        lines = self._jvm.scala.jdk.javaapi.CollectionConverters.asScala(actions)
        try:
            log.store().write(path, lines, False, conf)
        except Py4JJavaError as failure:
            if "FileAlreadyExistsException" not in str(failure.java_exception):
                raise
            return False
        return True

    @property
    def other_has_committed(self):
        return self.others.with_name("others.done").exists()


@pytest.fixture
def race(spark, meanwhile, tmp_path):
    return Race(spark, tmp_path)


def test_who_commits_between_a_look_and_a_rename_of_spark_s_is_not_replaced(race):
    actions = race._jvm.java.util.ArrayList()
    actions.add('{"of":"spark"}')
    won = race.commit(actions.iterator())
    assert [won, race.other_has_committed].count(True) == 1
    assert delta_log.read(race.table, 1) == [{"of": "spark" if won else "another"}]


def test_who_commits_while_spark_writes_its_commit_is_not_replaced(race, meanwhile):
    assert not race.commit(race.actions(meanwhile, "Last"))
    assert race.other_has_committed
    assert delta_log.read(race.table, 1) == [{"of": "another"}]
    assert sorted(one.name for one in race.file.parent.glob("*.part")) == []


def test_a_commit_is_spark_s_own_where_the_answer_that_its_file_has_the_name_was_lost(
    race, meanwhile
):
    """On NFS a server that is asked again says that the name is taken. Taken for another's, the commit would be made twice, or its files be removed."""
    assert race.commit(race.actions(meanwhile, "Linked"))
    assert delta_log.read(race.table, 1) == [{"of": "spark"}]
    assert sorted(one.name for one in race.file.parent.glob("*.part")) == []


def test_commits_of_spark_leave_nothing_but_themselves_in_the_log(spark, tmp_path):
    table = SparkTable(spark, str(tmp_path / "with a space, % and é"))
    spark.range(3).write.format("delta").save(table.path)
    Committer().once(table, Identity("a", 1), lambda: table.delta().delete("id = 0"))
    names = {one.name for one in (tmp_path / "with a space, % and é" / "_delta_log").iterdir()}
    commits = {name for name in names if name.endswith(".json")}
    assert commits == {f"{version:020d}.json" for version in range(2)}
    assert not [name for name in names if name.endswith((".part", ".tmp"))]
    assert sorted(row.id for row in table.frame().collect()) == [1, 2]


def test_a_fence_that_comes_into_the_middle_of_a_commit_of_spark_s_is_not_replaced(race):
    """The predecessor was suspended right before its commit got its name, and wakes up."""
    fence = {"txn": {"appId": "a", "version": Marker(2, 0, 0).version, "lastUpdated": 0}}
    info = {"commitInfo": {"timestamp": 0, "operation": "Manual Update"}}
    race.others.write_text("".join(f"{json.dumps(one)}\n" for one in (info, fence)))
    table = SparkTable(race.session, str(race.table))
    try:
        Committer(1).once(table, Identity("a", 1), lambda: table.delta().delete("id = 0"))
        won = True
    except (ConcurrentTransactionException, LeaseLostError):
        won = False
    assert [won, race.other_has_committed].count(True) == 1
    assert (fence in (delta_log.read(race.table, 1) or [])) is race.other_has_committed


def test_the_jar_is_what_its_source_is_compiled_to():
    made = runpy.run_path(str(resource("connect", "log_store.py")))["made"]
    assert resource("connect", "log-store.jar").read_bytes() == made()
