package barograph.bridge;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.Optional;
import java.util.concurrent.Executor;
import java.util.function.Supplier;
import org.apache.storm.scheduler.Cluster;
import org.apache.storm.scheduler.Topologies;
import org.apache.storm.scheduler.TopologyDetails;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** One scheduling round: carry out plans whose rebalance has come, ask the policy service, apply what it answers. */
final class Rounds {
    private static final Logger LOG = LoggerFactory.getLogger(Rounds.class);

    /** How a round reaches the policy service. */
    interface Service {
        JsonNode schedule(Request request) throws ServiceFailed;

        void applied(Report report) throws ServiceFailed;
    }

    private final Service service;
    private final NimbusCalls nimbus;
    private final Plans plans;
    private final BridgeEvents events;
    private final Executor background;
    private final Supplier<Double> now;
    private final RequestBuilder requests = new RequestBuilder(new MachineNames());

    /** `now`: seconds since the epoch. `background` must not run its tasks inside the scheduling round. */
    Rounds(Service service, NimbusCalls nimbus, Plans plans, BridgeEvents events, Executor background, Supplier<Double> now) {
        this.service = service;
        this.nimbus = nimbus;
        this.plans = plans;
        this.events = events;
        this.background = background;
        this.now = now;
    }

    void round(Topologies topologies, Cluster cluster) {
        try {
            plans.all().forEach(plan -> carryOut(plan, topologies, cluster));
            Request request = requests.build(topologies, cluster, plans.topologies(), now.get());
            Answer answer = Answer.parse(service.schedule(request));
            AnswerCheck.check(request, answer);
            answer.topologies().forEach((id, change) ->
                apply(answer, change, request.topology(id).orElseThrow(), topologies, cluster));
        } catch (ServiceFailed | InvalidAnswer | AmbiguousMachine e) {
            fallBack(e.getMessage(), topologies, cluster);
        } catch (RuntimeException e) {
            // Nimbus dies of what a scheduler throws.
            LOG.error("the bridge failed", e);
            fallBack("the bridge failed: " + e, topologies, cluster);
        }
    }

    private void apply(
            Answer answer, Answer.Change change, Request.Topology topology, Topologies topologies, Cluster cluster) {
        LOG.info("decision {} of {} for {}: {}", answer.decisionId(), answer.policy(), topology.id(), answer.reason());
        if (topology.rebalancing()) {
            report(answer.decisionId(), topology.id(), false, "refused: an earlier change is still under way");
            return;
        }
        Placing.unplaced(cluster, topologies.getById(topology.id()), change.placement());
        Plan plan = Plan.of(answer.decisionId(), topology, change);
        if (plan.changesSomething(topology)) {
            begin(plan);
        } else {
            report(answer.decisionId(), topology.id(), true, "placed at once");
        }
    }

    private void begin(Plan plan) {
        plans.begin(plan);
        background.execute(() -> {
            try {
                nimbus.rebalance(plan.topologyName(), plan.executors());
            } catch (Exception e) {
                abort(plan, "Nimbus refused the rebalance: " + e);
            }
        });
    }

    private void carryOut(Plan plan, Topologies topologies, Cluster cluster) {
        TopologyDetails topology = topologies.getById(plan.topologyId());
        if (topology == null) {
            abort(plan, "the topology is gone");
        } else if (cluster.getAssignmentById(plan.topologyId()) == null) {
            Optional<String> problem = Placing.planned(cluster, topologies, plan);
            plans.end(plan);
            report(plan.decisionId(), plan.topologyId(), problem.isEmpty(), problem.orElse("rebalanced"));
        } else if (plans.isOverdue(plan)) {
            abort(plan, "no rebalance came of it; given up");
        } else if (executorsAreAsPlanned(plan, topology) && !cluster.getUnassignedExecutors(topology).isEmpty()) {
            // An ordinary tick between Nimbus's change of executors and the round of the rebalance, which is yet to come.
            Placing.planned(cluster, topologies, plan);
        }
    }

    private static boolean executorsAreAsPlanned(Plan plan, TopologyDetails topology) {
        return plan.executors().entrySet().stream().allMatch(entry ->
            topology.getComponentToExecutors().get(entry.getKey()).size() == entry.getValue());
    }

    private void abort(Plan plan, String message) {
        if (plans.end(plan)) {
            report(plan.decisionId(), plan.topologyId(), false, message);
        }
    }

    private void report(String decisionId, String topologyId, boolean ok, String message) {
        LOG.info("decision {} for {}: {}{}", decisionId, topologyId, ok ? "" : "not applied: ", message);
        Report report = new Report(decisionId, topologyId, now.get(), ok, message);
        background.execute(() -> {
            try {
                service.applied(report);
            } catch (ServiceFailed e) {
                LOG.warn("{}", e.getMessage());
            }
        });
    }

    /** Without a topology there is nothing to place and no run to spoil. */
    private void fallBack(String reason, Topologies topologies, Cluster cluster) {
        LOG.warn("fallback: {}", reason);
        if (topologies.getTopologies().isEmpty()) {
            return;
        }
        events.fallback(now.get(), reason);
        Placing.evenly(topologies, cluster);
    }
}
