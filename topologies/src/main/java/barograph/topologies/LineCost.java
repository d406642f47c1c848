package barograph.topologies;

import java.io.Serializable;

/** What a line costs a component: {@code msPerCharacter} for each character of its text that comes in. */
record LineCost(CostModel model, double msPerCharacter) implements Serializable {
    private static final double NANOS_PER_MS = 1e6;

    LineCost {
        if (!(msPerCharacter >= 0) || Double.isInfinite(msPerCharacter)) {
            throw new IllegalArgumentException("ms_per_character is " + msPerCharacter + "; it must be a finite number, 0 or above");
        }
    }

    LineCost(String costModel, double msPerCharacter) {
        this(CostModel.of(costModel), msPerCharacter);
    }

    /**
     * Storm interrupts a worker that ends: without the exception the rest of the queue would run through in no time and be counted.
     */
    void spend(Line line) {
        model.spend((long) (msPerCharacter * NANOS_PER_MS * line.text().length()));
        if (Thread.currentThread().isInterrupted()) {
            throw new IllegalStateException("the worker is shutting down", new InterruptedException());
        }
    }
}
