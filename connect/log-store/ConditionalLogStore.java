package ingest;

import io.delta.storage.S3SingleDriverLogStore;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.InterruptedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.util.Arrays;
import java.util.Iterator;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.s3a.AWSServiceIOException;

/**
 * How Spark commits to a table in an object store of S3's kind: so that it can replace nobody else's commit.
 *
 * Delta's own (4.4.0) looks whether the version is there and writes it then, which replaces one that came between the two, without a
 * word to either. Here the server looks, in one step with the write (`If-None-Match: *`): the condition is demanded, so a Hadoop that
 * does not know it fails instead of leaving it out.
 */
public class ConditionalLogStore extends S3SingleDriverLogStore {

    private static final String CONDITION = "fs.option.create.conditional.overwrite";
    private static final int CONFLICT = 409;
    private static final int TRIES = 4;
    private static final long PAUSE = 200; // ms

    public ConditionalLogStore(Configuration conf) {
        super(conf);
    }

    /** Raises java.nio.file.FileAlreadyExistsException where another has made this version, which Delta looks at then. */
    public void write(Path path, Iterator<String> actions, Boolean overwrite, Configuration conf) throws IOException {
        if (overwrite.booleanValue()) {
            super.write(path, actions, overwrite, conf);
            return;
        }
        byte[] content = bytes(actions);
        FileSystem fs = path.getFileSystem(conf);
        for (int left = TRIES - 1; !made(fs, path, content, left > 0); left--) {
            pause();
        }
    }

    /** False where the put is to be sent again. */
    private static boolean made(FileSystem fs, Path path, byte[] content, boolean again) throws IOException {
        try {
            put(fs, path, content);
        } catch (IOException failure) {
            // The answer of a put that was made may be lost, and the put sent again meets itself. Each commit says an id of its
            // own (txnId of its commitInfo), so the same bytes are this very commit.
            byte[] there = read(fs, path, content.length);
            if (there == null && again && isConflict(failure)) {
                return false;
            }
            if (there == null) {
                throw failure;
            }
            if (!Arrays.equals(there, content)) {
                throw new FileAlreadyExistsException(path.toString());
            }
        }
        return true;
    }

    /** A store also refuses a put beside one that is under way: then there is no file yet, and nobody is known to have made it. */
    private static boolean isConflict(IOException failure) {
        return failure instanceof AWSServiceIOException && ((AWSServiceIOException) failure).statusCode() == CONFLICT;
    }

    private static void pause() throws IOException {
        try {
            Thread.sleep(PAUSE);
        } catch (InterruptedException stopped) {
            Thread.currentThread().interrupt();
            throw new InterruptedIOException("stopped between two tries of a commit");
        }
    }

    private static void put(FileSystem fs, Path path, byte[] content) throws IOException {
        FSDataOutputStreamBuilder builder = fs.createFile(path);
        builder.create();
        builder.overwrite(true);
        builder.must(CONDITION, true);
        FSDataOutputStream out = (FSDataOutputStream) builder.build();
        try {
            out.write(content);
        } catch (IOException failure) {
            out.abort(); // Closed, it would be a commit of half the actions.
            throw failure;
        }
        out.close();
    }

    /** Null where there is none; as many bytes as were asked for and one more, where it has more. */
    private static byte[] read(FileSystem fs, Path path, int length) throws IOException {
        if (!fs.exists(path)) {
            return null;
        }
        InputStream in = fs.open(path);
        try {
            byte[] found = new byte[length + 1];
            int filled = 0;
            int more = in.read(found, 0, found.length);
            while (more > 0) {
                filled += more;
                more = in.read(found, filled, found.length - filled);
            }
            return Arrays.copyOf(found, filled);
        } finally {
            in.close();
        }
    }

    private static byte[] bytes(Iterator<String> actions) throws IOException {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        while (actions.hasNext()) {
            out.write((actions.next() + "\n").getBytes(StandardCharsets.UTF_8));
        }
        return out.toByteArray();
    }
}
