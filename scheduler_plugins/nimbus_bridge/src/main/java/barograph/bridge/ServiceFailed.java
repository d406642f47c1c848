package barograph.bridge;

/** The policy service gave no answer. */
final class ServiceFailed extends Exception {
    private static final long serialVersionUID = 1L;

    ServiceFailed(String message, Throwable cause) {
        super(message, cause);
    }
}
