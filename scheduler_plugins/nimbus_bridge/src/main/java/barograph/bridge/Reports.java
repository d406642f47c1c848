package barograph.bridge;

import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.Executor;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Says what became of decisions, again each round until the policy service has heard it: it takes the same twice as once. */
final class Reports {
    /** A minute of rounds: the service gives the decision up soon after. */
    static final int TRIES = 30;
    private static final Logger LOG = LoggerFactory.getLogger(Reports.class);

    private static final class Unsaid {
        private final Report report;
        private int tries;

        Unsaid(Report report) {
            this.report = report;
        }
    }

    private final Queue<Unsaid> unsaid = new ConcurrentLinkedQueue<>();
    private final Rounds.Service service;
    private final Executor background;

    Reports(Rounds.Service service, Executor background) {
        this.service = service;
        this.background = background;
    }

    void add(Report report) {
        LOG.info("decision {} for {}: {}{}", report.decisionId(), report.topology(), report.ok() ? "" : "not applied: ", report.message());
        unsaid.add(new Unsaid(report));
        background.execute(this::sayAll);
    }

    /** At the beginning of a round. */
    void again() {
        if (!unsaid.isEmpty()) {
            background.execute(this::sayAll);
        }
    }

    /** In their order; a service that does not hear one is not bothered with the others. */
    private void sayAll() {
        for (Unsaid next = unsaid.peek(); next != null && isOver(next); next = unsaid.peek()) {
            unsaid.remove(next);
        }
    }

    private boolean isOver(Unsaid next) {
        try {
            service.applied(next.report);
            return true;
        } catch (ServiceFailed e) {
            next.tries++;
            LOG.warn("{} (decision {}, try {} of {})", e.getMessage(), next.report.decisionId(), next.tries, TRIES);
            return next.tries >= TRIES;
        }
    }
}
