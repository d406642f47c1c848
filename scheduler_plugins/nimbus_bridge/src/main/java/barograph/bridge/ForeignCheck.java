package barograph.bridge;

import java.nio.file.Path;
import java.util.List;

/** Whether the bridge could host a scheduler: `ForeignCheck JAR CLASS`, asked before machines are. */
public final class ForeignCheck {
    private ForeignCheck() {}

    public static void main(String[] arguments) {
        try (ForeignClass found = ForeignClass.load(List.of(Path.of(arguments[0])), arguments[1])) {
            System.out.println(found.name() + " can be hosted");
        } catch (SchedulerFailed e) {
            System.err.println(e.getMessage());
            System.exit(1);
        }
    }
}
