package barograph.bridge;

/** One of Storm's own schedulers threw. */
final class SchedulerFailed extends Exception {
    private static final long serialVersionUID = 1L;

    SchedulerFailed(String message, Throwable cause) {
        super(message, cause);
    }
}
