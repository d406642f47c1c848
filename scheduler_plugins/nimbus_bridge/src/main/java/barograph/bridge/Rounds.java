package barograph.bridge;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.TreeMap;
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
    private final StormSchedulers schedulers;
    private final Executor background;
    private final Supplier<Double> now;
    private final RequestBuilder requests = new RequestBuilder(new MachineNames());
    /** By topology id: what Storm's own scheduler said of executors that it left without a slot, in its last round. */
    private Map<String, String> unplacedWhy = Map.of();
    /** By topology id: how Storm's or a foreign scheduler failed it, until the policy service has been told. */
    private Map<String, String> schedulerErrors = Map.of();

    /** `now`: seconds since the epoch. `background` must not run its tasks inside the scheduling round. */
    Rounds(Service service, NimbusCalls nimbus, Plans plans, BridgeEvents events, StormSchedulers schedulers,
           Executor background, Supplier<Double> now) {
        this.service = service;
        this.nimbus = nimbus;
        this.plans = plans;
        this.events = events;
        this.schedulers = schedulers;
        this.background = background;
        this.now = now;
    }

    void round(Topologies topologies, Cluster cluster) {
        try {
            for (Plan plan : plans.all()) {
                carryOut(plan, topologies, cluster);
            }
            Request request = requests.build(topologies, cluster, plans.topologies(), unplacedWhy, now.get());
            Answer answer = Answer.parse(service.schedule(request.failedBy(schedulerErrors)));
            schedulerErrors = Map.of();
            AnswerCheck.check(request, answer);
            answer.topologies().forEach((id, change) ->
                apply(answer, change, request.topology(id).orElseThrow(), topologies, cluster));
            delegate(answer, request, topologies, cluster);
        } catch (SchedulerFailed e) {
            schedulerFailed(e, topologies);
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
        if (refusedAsUnderWay(answer, topology)) {
            return;
        }
        Placement.placeUnplaced(cluster, topologies.getById(topology.id()), change.placement());
        Plan plan = Plan.of(answer.decisionId(), topology, change);
        if (plan.changesSomething(topology)) {
            begin(plan);
        } else {
            report(answer.decisionId(), topology.id(), true, "placed at once");
        }
    }

    private boolean refusedAsUnderWay(Answer answer, Request.Topology topology) {
        LOG.info("decision {} of {} for {}: {}", answer.decisionId(), answer.policy(), topology.id(), answer.reason());
        if (topology.rebalancing()) {
            report(answer.decisionId(), topology.id(), false, "refused: an earlier change is still under way");
        }
        return topology.rebalancing();
    }

    /** Another scheduler places where the answer says so; what it is to place anew waits for its rebalance. */
    private void delegate(Answer answer, Request request, Topologies topologies, Cluster cluster) throws SchedulerFailed {
        if (answer.scheduler() == null) {
            unplacedWhy = Map.of();
            return;
        }
        if (topologies.getTopologies().isEmpty()) {
            return; // between runs there is nothing to place, and no run to spoil
        }
        placeWholly(answer.scheduler(), topologies, cluster);
        for (String id : answer.rebalance()) {
            Request.Topology topology = request.topology(id).orElseThrow();
            if (!refusedAsUnderWay(answer, topology)) {
                begin(Plan.anew(answer.decisionId(), topology, answer.scheduler()));
            }
        }
    }

    private void placeWholly(Answer.Scheduler scheduler, Topologies topologies, Cluster cluster) throws SchedulerFailed {
        Map<String, String> before = unplacedWhy;
        unplacedWhy = schedulers.place(scheduler, topologies, cluster);
        unplacedWhy.forEach((id, why) -> {
            if (!Objects.equals(why, before.get(id))) {
                LOG.warn("{}: {}", id, why);
                events.unplaced(now.get(), id, why);
            }
        });
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

    private void carryOut(Plan plan, Topologies topologies, Cluster cluster) throws SchedulerFailed {
        TopologyDetails topology = topologies.getById(plan.topologyId());
        if (topology == null) {
            abort(plan, "the topology is gone");
        } else if (cluster.getAssignmentById(plan.topologyId()) == null) {
            Optional<String> problem = place(plan, topologies, cluster);
            plans.end(plan);
            report(plan.decisionId(), plan.topologyId(), problem.isEmpty(), problem.orElse("rebalanced"));
        } else if (plans.isOverdue(plan)) {
            abort(plan, "no rebalance came of it; given up");
        } else if (executorsAreAsPlanned(plan, topology) && !cluster.getUnassignedExecutors(topology).isEmpty()) {
            // An ordinary tick between Nimbus's change of executors and the round of the rebalance, which is yet to come.
            place(plan, topologies, cluster);
        }
    }

    /** Returns why it did not go as planned. */
    private Optional<String> place(Plan plan, Topologies topologies, Cluster cluster) throws SchedulerFailed {
        if (plan.scheduler() == null) {
            return Placement.placePlanned(cluster, topologies, plan);
        }
        try {
            placeWholly(plan.scheduler(), topologies, cluster);
            return Optional.ofNullable(unplacedWhy.get(plan.topologyId()));
        } catch (SchedulerFailed e) {
            Placement.placeUnplaced(cluster, topologies.getById(plan.topologyId()), plan.before());
            abort(plan, e.getMessage() + "; nothing was moved");
            throw e;
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

    /** Nothing is placed in its stead: that would be another scheduler's result. */
    private void schedulerFailed(SchedulerFailed failure, Topologies topologies) {
        LOG.warn("the scheduler that the policy chose failed", failure);
        events.schedulerFailed(now.get(), failure.getMessage(), failure.frames());
        Map<String, String> errors = new TreeMap<>();
        topologies.getTopologies().forEach(topology -> errors.put(topology.getId(), failure.getMessage()));
        schedulerErrors = errors;
    }

    /** Without a topology there is nothing to place and no run to spoil. */
    private void fallBack(String reason, Topologies topologies, Cluster cluster) {
        LOG.warn("fallback: {}", reason);
        if (topologies.getTopologies().isEmpty()) {
            return;
        }
        events.fallback(now.get(), reason);
        Placement.evenly(topologies, cluster);
    }
}
