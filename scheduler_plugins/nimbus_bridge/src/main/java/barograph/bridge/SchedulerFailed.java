package barograph.bridge;

/** A scheduler that was to place all threw. */
class SchedulerFailed extends Exception {
    private static final long serialVersionUID = 1L;

    SchedulerFailed(String message, Throwable cause) {
        super(message, cause);
    }
}
