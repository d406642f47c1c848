package barograph.bridge;

import java.io.IOException;
import java.nio.file.Path;
import java.util.List;

/** Whether the bridge could host a scheduler: `ForeignCheck JAR CLASS`, asked before machines are. It is made, too. */
public final class ForeignCheck {
    private ForeignCheck() {}

    public static void main(String[] arguments) {
        try (ForeignClass found = ForeignClass.load(List.of(Path.of(arguments[0])), arguments[1])) {
            found.requireReferences();
            found.make();
            System.out.println(found.name() + " can be hosted");
        } catch (SchedulerFailed e) {
            System.err.println(e.getMessage());
            System.exit(1);
        } catch (IOException | ReflectiveOperationException | LinkageError e) {
            Throwable cause = e instanceof java.lang.reflect.InvocationTargetException && e.getCause() != null ? e.getCause() : e;
            System.err.println("class " + arguments[1] + " cannot be made: " + cause);
            System.exit(1);
        }
    }
}
