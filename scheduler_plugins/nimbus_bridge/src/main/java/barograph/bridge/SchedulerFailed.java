package barograph.bridge;

import java.util.List;
import java.util.stream.Stream;

/** A scheduler that was to place all cannot be used, threw, hung, or placed where nothing is: a result about it. */
final class SchedulerFailed extends Exception {
    private static final long serialVersionUID = 1L;
    private static final int SHOWN = 8;
    private final String[] frames;

    SchedulerFailed(String message, StackTraceElement[] where, Throwable cause) {
        super(message, cause);
        this.frames = Stream.of(where).limit(SHOWN).map(StackTraceElement::toString).toArray(String[]::new);
    }

    SchedulerFailed(String message) {
        this(message, new StackTraceElement[0], null);
    }

    /** What it threw, from where, and what was at the bottom of it. */
    static SchedulerFailed threw(String called, Throwable thrown) {
        Throwable root = thrown;
        while (root.getCause() != null && root.getCause() != root) {
            root = root.getCause();
        }
        StackTraceElement[] where = root.getStackTrace();
        String at = where.length == 0 ? "" : " at " + where[0];
        String because = root == thrown ? "" : ", because of " + root;
        return new SchedulerFailed(called + " threw " + thrown + because + at, where, thrown);
    }

    /** The innermost first. */
    List<String> frames() {
        return List.of(frames);
    }
}
