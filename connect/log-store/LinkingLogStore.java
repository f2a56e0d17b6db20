package ingest;

import io.delta.storage.HDFSLogStore;
import java.io.BufferedOutputStream;
import java.io.File;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.util.Iterator;
import java.util.UUID;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;

/**
 * How Spark commits to a table on a local disk: so that it can replace nobody else's commit, whenever it goes on.
 *
 * Delta's own looks whether the version is there and renames its file to it, which takes the place of one that came
 * between the two. A link is made by the kernel in one step, and only where there is no such name yet. So commit
 * delta-rs and `LocalFiles.create` of this project, whose name for a file that is being made this one has, too.
 */
public class LinkingLogStore extends HDFSLogStore {

    public LinkingLogStore(Configuration conf) {
        super(conf);
    }

    /** Raises java.nio.file.FileAlreadyExistsException where another has made this version, which Delta looks at then. */
    public void write(Path path, Iterator<String> actions, Boolean overwrite, Configuration conf) throws IOException {
        if (overwrite.booleanValue()) {
            super.write(path, actions, overwrite, conf);
            return;
        }
        File file = new File(path.toUri().getPath());
        String made = UUID.randomUUID().toString().replace("-", "").substring(0, 12);
        File part = new File(file.getParentFile(), file.getName() + "." + made + ".part");
        try {
            write(part, actions);
            link(file, part);
        } finally {
            part.delete(); // It has its other name by now, or the disk does not even let go: neither undoes what was done.
        }
    }

    /**
     * Over NFS the name may be taken by this very link: the server has made it, its answer was lost, and it was asked again. So the
     * file that has the name is looked at.
     */
    private static void link(File file, File part) throws IOException {
        try {
            Files.createLink(file.toPath(), part.toPath());
        } catch (FileAlreadyExistsException taken) {
            if (!file.exists() || !Files.isSameFile(file.toPath(), part.toPath())) throw taken;
        }
    }

    private static void write(File file, Iterator<String> actions) throws IOException {
        OutputStream stream = new BufferedOutputStream(new FileOutputStream(file));
        try {
            while (actions.hasNext()) {
                stream.write((actions.next() + "\n").getBytes(StandardCharsets.UTF_8));
            }
        } finally {
            stream.close();
        }
    }
}
