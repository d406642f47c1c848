package barograph.topologies.measure;

import java.io.Closeable;
import java.io.IOException;
import java.io.InputStream;
import java.io.RandomAccessFile;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HexFormat;
import java.util.zip.CRC32;

/**
 * An Avro container of one process, as docs/contracts.md has it: lines in Avro, each a block that one write appends.
 *
 * <p>Where a line could not be written whole, on a full disk, the file is cut back to its last whole block.
 */
final class SampleFile implements Closeable {
    /** Between blocks; the same in every file, so that what follows any damage is found again. */
    private static final byte[] MARKER = "\u001d\u0002kQ\u001f7z~\u000b^\u0019dW\u0005!\u0012".getBytes(StandardCharsets.US_ASCII);
    private static final byte[] MAGIC = {'O', 'b', 'j', 1};
    private static final byte[] SCHEMA = schema();
    private static final int CHECKSUM_BYTES = 4;
    /** The checksum of each line begins with it: no line is whole by any other schema. */
    private static final byte[] SCHEMA_CHECKSUM = checksum(SCHEMA);

    private final Path directory;
    private final String slot;
    private final long beginMs;
    private Path path;
    private RandomAccessFile file;
    private long end;

    /** {@code beginMs}: of the process, for its file's name; process ids come again. */
    SampleFile(Path directory, String slot, long beginMs) {
        this.directory = directory;
        this.slot = slot;
        this.beginMs = beginMs;
    }

    /** Throws if the line could not be written whole; the next call tries again after the last whole one. */
    void append(byte[] line) throws IOException {
        if (file == null) {
            open();
        }
        byte[] block = block(line);
        byte[] bytes = end > 0 ? block : joined(header(), block);
        try {
            cutBack();
            file.seek(end);
            file.write(bytes);
        } catch (IOException e) {
            try {
                cutBack();
            } catch (IOException again) {
                e.addSuppressed(again);
            }
            throw e;
        }
        end += bytes.length;
    }

    private void cutBack() throws IOException {
        if (file.length() > end) {
            file.setLength(end);
        }
    }

    private void open() throws IOException {
        if (path == null) {
            path = create();
        }
        file = new RandomAccessFile(path.toFile(), "rw");
        end = Math.min(end, file.length());
    }

    /** No other process's file is written to, whatever it is called. */
    private Path create() throws IOException {
        Files.createDirectories(directory.toAbsolutePath());
        for (long number = beginMs;; number++) {
            try {
                return Files.createFile(directory.resolve(slot + "-" + number + ".avro"));
            } catch (FileAlreadyExistsException e) {
                continue;
            }
        }
    }

    private static byte[] schema() {
        try (InputStream schema = SampleFile.class.getResourceAsStream("worker_line.avsc")) {
            return new String(schema.readAllBytes(), StandardCharsets.UTF_8).strip().getBytes(StandardCharsets.UTF_8);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static byte[] header() {
        return new Avro().raw(MAGIC).number(3)
            .value("avro.schema").counted(SCHEMA)
            .value("avro.codec").value("null")
            .value("schema_checksum").value(HexFormat.of().formatHex(SCHEMA_CHECKSUM))
            .number(0).raw(MARKER).toBytes();
    }

    /** One line: how many there are, in how many bytes, it, and the checksum of the schema and all this. */
    private static byte[] block(byte[] line) {
        byte[] framed = new Avro().number(1).number(line.length + CHECKSUM_BYTES).raw(line).toBytes();
        return joined(framed, checksum(SCHEMA_CHECKSUM, framed), MARKER);
    }

    private static byte[] joined(byte[]... parts) {
        Avro all = new Avro();
        for (byte[] part : parts) {
            all.raw(part);
        }
        return all.toBytes();
    }

    /** CRC-32, the lowest byte first. */
    private static byte[] checksum(byte[]... parts) {
        CRC32 sum = new CRC32();
        for (byte[] part : parts) {
            sum.update(part);
        }
        byte[] checksum = new byte[CHECKSUM_BYTES];
        for (int i = 0; i < CHECKSUM_BYTES; i++) {
            checksum[i] = (byte) (sum.getValue() >>> 8 * i);
        }
        return checksum;
    }

    @Override
    public void close() throws IOException {
        if (file != null) {
            file.close();
            file = null;
        }
    }
}
