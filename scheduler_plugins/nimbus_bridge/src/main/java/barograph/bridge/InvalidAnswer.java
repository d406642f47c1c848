package barograph.bridge;

/** An answer of the policy service that cannot be applied. */
final class InvalidAnswer extends Exception {
    private static final long serialVersionUID = 1L;

    InvalidAnswer(String message) {
        super(message);
    }
}
