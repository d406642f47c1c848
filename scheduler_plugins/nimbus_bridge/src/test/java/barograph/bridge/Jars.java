package barograph.bridge;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.jar.JarOutputStream;
import java.util.stream.Stream;
import java.util.zip.ZipEntry;
import javax.tools.ToolProvider;

/** Jars of other people's, compiled for a test. */
final class Jars {
    private Jars() {}

    /** Sources by class name; classes for which `kept` is a prefix are in the jar. `classPath` is what they are compiled against. */
    static Path make(Path folder, String name, Map<String, String> sources, String classPath, String kept) throws IOException {
        Path scratch = Files.createTempDirectory(folder, "sources");
        List<String> arguments = new ArrayList<>(List.of("-d", scratch.resolve("classes").toString(), "-cp", classPath, "-proc:none", "-nowarn"));
        for (Map.Entry<String, String> source : sources.entrySet()) {
            Path file = scratch.resolve(source.getKey().replace('.', '/') + ".java");
            Files.createDirectories(file.getParent());
            Files.writeString(file, source.getValue());
            arguments.add(file.toString());
        }
        Files.createDirectories(scratch.resolve("classes"));
        if (ToolProvider.getSystemJavaCompiler().run(null, null, null, arguments.toArray(String[]::new)) != 0) {
            throw new IllegalArgumentException("the sources of " + name + " do not compile");
        }
        return pack(scratch.resolve("classes"), Files.createDirectories(folder.resolve("foreign")).resolve(name), kept);
    }

    private static Path pack(Path classes, Path jar, String kept) throws IOException {
        try (JarOutputStream packed = new JarOutputStream(Files.newOutputStream(jar)); Stream<Path> files = Files.walk(classes)) {
            for (Path file : files.filter(Files::isRegularFile).toList()) {
                String entry = classes.relativize(file).toString();
                if (entry.startsWith(kept)) {
                    packed.putNextEntry(new ZipEntry(entry));
                    packed.write(Files.readAllBytes(file));
                }
            }
        }
        return jar;
    }
}
