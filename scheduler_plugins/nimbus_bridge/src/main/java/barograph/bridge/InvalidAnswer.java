package barograph.bridge;

/** An answer of the policy service that cannot be applied; `kind` is the word the contract cases use. */
final class InvalidAnswer extends Exception {
    private static final long serialVersionUID = 1L;

    enum Kind {
        MALFORMED, UNKNOWN_TOPOLOGY, UNKNOWN_COMPONENT, UNKNOWN_TASK, UNKNOWN_SLOT, UNKNOWN_MACHINE, UNKNOWN_SCHEDULER,
        EXECUTORS_OUT_OF_RANGE, SLOT_TAKEN, MACHINE_IN_USE, NO_SCHEDULER, TWO_PLACERS, WAIT_OUT_OF_RANGE
    }

    private final Kind kind;

    InvalidAnswer(Kind kind, String message) {
        super(message);
        this.kind = kind;
    }

    Kind kind() {
        return kind;
    }
}
