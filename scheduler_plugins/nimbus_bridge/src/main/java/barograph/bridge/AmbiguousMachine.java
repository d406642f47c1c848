package barograph.bridge;

/** Two supervisors have one name, so a slot that a policy names could be either's. */
final class AmbiguousMachine extends RuntimeException {
    private static final long serialVersionUID = 1L;

    AmbiguousMachine(String message) {
        super(message);
    }
}
