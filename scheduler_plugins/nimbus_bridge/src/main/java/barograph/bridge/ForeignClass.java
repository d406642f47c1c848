package barograph.bridge;

import java.io.BufferedInputStream;
import java.io.DataInputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.reflect.Constructor;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.net.MalformedURLException;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.storm.scheduler.IScheduler;

/**
 * The class of a scheduler that is not ours, loaded beside Storm: it sees Storm's classes, which come first as they do
 * in Storm's own extlib-daemon, and nothing in Nimbus sees its.
 */
record ForeignClass(String name, URLClassLoader loader, Constructor<?> constructor) implements AutoCloseable {

    /** Throws SchedulerFailed naming the jars and the class where it is none that can be hosted. */
    static ForeignClass load(List<Path> jars, String name) throws SchedulerFailed {
        URLClassLoader loader = new URLClassLoader(urls(jars), ForeignClass.class.getClassLoader());
        String called = "class " + name + " of " + jars.stream().map(jar -> jar.getFileName().toString())
            .collect(Collectors.joining(", "));
        try {
            return new ForeignClass(name, loader, constructor(Class.forName(name, false, loader), called));
        } catch (ClassNotFoundException e) {
            throw closing(loader, called + " is not there; is it the whole name, with its package?", e);
        } catch (LinkageError e) {
            throw closing(loader, called + " cannot be loaded: " + e + "; neither the jar nor Storm has what it needs", e);
        } catch (SchedulerFailed e) {
            throw closing(loader, e.getMessage(), e);
        }
    }

    /** Every jar of the folder; none where there is no folder. */
    static List<Path> jarsIn(Path folder) {
        if (!Files.isDirectory(folder)) {
            return List.of();
        }
        try (Stream<Path> files = Files.list(folder)) {
            return files.filter(file -> file.toString().endsWith(".jar")).sorted().toList();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    IScheduler make() throws ReflectiveOperationException {
        return (IScheduler) constructor.newInstance();
    }

    /**
     * Loads each class that the scheduler's class and its neighbours refer to, as far as it reaches them. Throws
     * SchedulerFailed for the first that neither the jars nor Storm have. Libraries are not followed: some refer to
     * what they can do without.
     */
    void requireReferences() throws SchedulerFailed, IOException {
        Deque<String> open = new ArrayDeque<>(List.of(name));
        Set<String> known = new HashSet<>(open);
        String place = name.substring(0, name.lastIndexOf('.') + 1);
        String neighbours = place.replaceFirst("^((?:\\w+\\.){2,})\\w+\\.$", "$1"); // com.me. of com.me.scheduler.
        while (!open.isEmpty()) {
            String user = open.pop();
            URL file = loader.findResource(user.replace('.', '/') + ".class");
            if (file == null) {
                continue; // Storm's or Java's
            }
            for (String each : references(file)) {
                if (known.add(each)) {
                    try {
                        Class.forName(each, false, loader);
                    } catch (ClassNotFoundException | LinkageError e) {
                        throw new SchedulerFailed("class " + user + " needs " + each + ", which neither the jar nor Storm has ("
                            + e + "); build it against this Storm, with its libraries in the jar");
                    }
                    if (each.startsWith(neighbours)) {
                        open.push(each);
                    }
                }
            }
        }
    }

    /** Names of classes in the constant pool of a class file (JVM specification, 4.4). */
    private static Set<String> references(URL file) throws IOException {
        try (DataInputStream in = new DataInputStream(new BufferedInputStream(file.openStream()))) {
            in.skipNBytes(8);
            int count = in.readUnsignedShort();
            Map<Integer, String> texts = new HashMap<>();
            List<Integer> classes = new ArrayList<>();
            for (int place = 1; place < count; place++) {
                int tag = in.readUnsignedByte();
                switch (tag) {
                    case 1 -> texts.put(place, in.readUTF());
                    case 7 -> classes.add(in.readUnsignedShort());
                    case 8, 16, 19, 20 -> in.skipNBytes(2);
                    case 15 -> in.skipNBytes(3);
                    case 5, 6 -> {
                        in.skipNBytes(8);
                        place++; // a long and a double have two places
                    }
                    default -> in.skipNBytes(4);
                }
            }
            return classes.stream().map(texts::get).map(text -> text.replaceFirst("^\\[+L?", "").replace(";", ""))
                .filter(text -> text.length() > 1).map(text -> text.replace('/', '.')).collect(Collectors.toSet());
        }
    }

    @Override
    public void close() {
        try {
            loader.close();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static Constructor<?> constructor(Class<?> found, String called) throws SchedulerFailed {
        if (!IScheduler.class.isAssignableFrom(found)) {
            throw new SchedulerFailed(called + " is no " + IScheduler.class.getName() + "; a scheduler implements that");
        }
        if (Modifier.isAbstract(found.getModifiers()) || !Modifier.isPublic(found.getModifiers())) {
            throw new SchedulerFailed(called + " is " + Modifier.toString(found.getModifiers())
                + "; Storm makes its schedulers itself, so it must be public and not abstract");
        }
        List<String> missing = missing(found);
        if (!missing.isEmpty()) {
            throw new SchedulerFailed(called + " has no " + String.join(", ", missing)
                + ": it was compiled against another Storm; build it against this one");
        }
        try {
            return found.getConstructor();
        } catch (NoSuchMethodException e) {
            throw new SchedulerFailed(called + " has no public constructor without parameters, with which Storm makes it");
        }
    }

    /** Methods of Storm's interface that nothing implements: javac would not let it be so, another version's does. */
    private static List<String> missing(Class<?> found) {
        List<String> missing = new ArrayList<>();
        for (Method wanted : IScheduler.class.getMethods()) {
            try {
                if (Modifier.isAbstract(found.getMethod(wanted.getName(), wanted.getParameterTypes()).getModifiers())) {
                    missing.add(signature(wanted));
                }
            } catch (NoSuchMethodException e) {
                missing.add(signature(wanted));
            }
        }
        return missing;
    }

    private static String signature(Method method) {
        return method.getName() + Stream.of(method.getParameterTypes()).map(Class::getSimpleName)
            .collect(Collectors.joining(", ", "(", ")"));
    }

    private static SchedulerFailed closing(URLClassLoader loader, String message, Throwable cause) {
        try {
            loader.close();
        } catch (IOException e) {
            cause.addSuppressed(e);
        }
        return new SchedulerFailed(message, new StackTraceElement[0], cause);
    }

    private static URL[] urls(List<Path> jars) {
        return jars.stream().map(ForeignClass::url).toArray(URL[]::new);
    }

    private static URL url(Path jar) {
        try {
            return jar.toUri().toURL();
        } catch (MalformedURLException e) {
            throw new IllegalStateException(e);
        }
    }
}
