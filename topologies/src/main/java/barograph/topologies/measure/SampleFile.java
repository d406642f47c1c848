package barograph.topologies.measure;

import java.io.Closeable;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;

/**
 * Appends lines to a file, each with one write, so that whoever reads it sees whole lines. A worker that was killed, or a full
 * disk, may leave half a line: the next write ends it first, and only that line is damaged.
 */
final class SampleFile implements Closeable {
    private final Path path;
    private FileChannel channel;
    private boolean endsMidLine;

    SampleFile(Path path) {
        this.path = path;
    }

    /** Throws if the line could not be written whole; the next call tries again from a clean line. */
    void append(String line) throws IOException {
        if (channel == null) {
            open();
        }
        byte[] bytes = ((endsMidLine ? "\n" : "") + line + "\n").getBytes(StandardCharsets.UTF_8);
        endsMidLine = true;
        ByteBuffer buffer = ByteBuffer.wrap(bytes);
        while (buffer.hasRemaining()) {
            channel.write(buffer);
        }
        endsMidLine = false;
    }

    private void open() throws IOException {
        Path directory = path.toAbsolutePath().getParent();
        Files.createDirectories(directory);
        channel = FileChannel.open(path, StandardOpenOption.CREATE, StandardOpenOption.WRITE, StandardOpenOption.APPEND);
        endsMidLine = !endsWithNewline();
    }

    private boolean endsWithNewline() throws IOException {
        try (RandomAccessFile file = new RandomAccessFile(path.toFile(), "r")) {
            if (file.length() == 0) {
                return true;
            }
            file.seek(file.length() - 1);
            return file.read() == '\n';
        }
    }

    @Override
    public void close() throws IOException {
        if (channel != null) {
            channel.close();
            channel = null;
        }
    }
}
