package barograph.bridge;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
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
    /** Storm takes up a rebalance that it was in when it ended by then; if not, it had not begun it. */
    private static final int ROUNDS_OF_A_RESTART = 3;

    /** How a round reaches the policy service. */
    interface Service {
        JsonNode schedule(Request request) throws ServiceFailed;

        /** The service may hear the same report again. */
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
    private final Reports reports;
    private int rounds;
    /** The newest decision that is here: the service takes back what did not arrive. */
    private String lastDecision;
    /** By topology id: slot of each task when the round before was over. */
    private Map<String, Map<Integer, Slot>> slots = Map.of();
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
        this.reports = new Reports(service, background);
        this.lastDecision = plans.all().stream().map(Plan::decisionId).max(Comparator.comparing(Rounds::number)).orElse(null);
    }

    /** Decisions of a run are d1, d2, …. */
    private static long number(String decision) {
        String digits = decision.replaceAll("\\D", "");
        return digits.isEmpty() ? 0 : Long.parseLong(digits);
    }

    void round(Topologies topologies, Cluster cluster) {
        rounds++;
        reports.again();
        plans.save(); // Storm has stored by now what ended in the round before
        try {
            Set<String> planned = plans.topologies();
            carryOutAll(topologies, cluster);
            keepWhatWasNotPlanned(planned, topologies, cluster);
            Request request = requests.build(topologies, cluster, plans.all(), unplacedWhy, now.get()).after(lastDecision);
            remember(request);
            Answer answer = Answer.parse(service.schedule(request.failedBy(schedulerErrors)));
            schedulerErrors = Map.of();
            AnswerCheck.check(request, answer);
            lastDecision = answer.decisionId() == null ? lastDecision : answer.decisionId();
            applyAll(answer, request, topologies, cluster);
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

    /** Every plan of an answer is known before the first is begun: one topology may take what another leaves. */
    private void applyAll(Answer answer, Request request, Topologies topologies, Cluster cluster) {
        List<Plan> changes = new ArrayList<>();
        answer.topologies().forEach((id, change) -> {
            Request.Topology topology = request.topology(id).orElseThrow();
            try {
                if (!refusedAsUnderWay(answer, topology)) {
                    placeAtOnce(answer, topology, change, topologies.getById(id), cluster).ifPresent(changes::add);
                }
            } catch (RuntimeException e) {
                bridgeFailed(answer.decisionId(), id, e);
                report(answer.decisionId(), id, false, "the bridge failed: " + e);
            }
        });
        begin(changes, cluster);
    }

    /** Places what has no slot and can have its new one now; returns what is left to do, if anything. */
    private Optional<Plan> placeAtOnce(
            Answer answer, Request.Topology topology, Answer.Change change, TopologyDetails details, Cluster cluster) {
        Placement.placeUnplaced(cluster, details, change.placement());
        Plan plan = Plan.of(answer, topology, change);
        boolean waits = cluster.getUnassignedExecutors(details).stream()
            .anyMatch(executor -> change.placement().containsKey(executor.getStartTask()));
        if (waits || plan.changesSomething(topology)) {
            return Optional.of(plan);
        }
        report(answer.decisionId(), topology.id(), true, "placed at once");
        return Optional.empty();
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
                begin(List.of(Plan.anew(answer, topology)), cluster);
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

    private void begin(List<Plan> changes, Cluster cluster) {
        changes.forEach(plans::begin);
        changes.forEach(plan -> requestUnlessHeld(plan, cluster));
    }

    /** A slot that another topology is in, and does not leave by a plan of its own, may become free yet. */
    private void requestUnlessHeld(Plan plan, Cluster cluster) {
        Optional<Slot> held = Placement.heldByAnother(cluster, plan, plans.all());
        if (held.isPresent()) {
            LOG.info("decision {} for {} waits: another topology is in slot {}", plan.decisionId(), plan.topologyId(), held.get());
            return;
        }
        plans.request(plan);
        background.execute(() -> {
            try {
                nimbus.rebalance(plan.topologyName(), plan.executors(), plan.waitSeconds());
            } catch (Exception e) {
                refused(plan, e);
            }
        });
    }

    /** Of a Nimbus before this one it may be under way, and Storm refuses a second one: either it comes, or it is overdue. */
    private void refused(Plan plan, Exception e) {
        if (plans.isRestored(plan)) {
            LOG.warn("decision {} for {}, from before Nimbus restarted: {}", plan.decisionId(), plan.topologyId(), e.toString());
        } else {
            abort(plan, "Nimbus refused the rebalance: " + e);
        }
    }

    /** Each plan on its own: one that fails leaves its topology where it was, and the others are carried out. */
    private void carryOutAll(Topologies topologies, Cluster cluster) throws SchedulerFailed {
        SchedulerFailed failure = null;
        for (Plan plan : plans.all()) {
            try {
                carryOut(plan, topologies, cluster);
            } catch (SchedulerFailed e) {
                failure = e;
            } catch (RuntimeException e) {
                bridgeFailed(plan.decisionId(), plan.topologyId(), e);
                abort(plan, "the bridge failed: " + e);
                Placement.placeUnplaced(cluster, topologies.getById(plan.topologyId()), plan.before());
            }
        }
        if (failure != null) {
            throw failure;
        }
    }

    private void bridgeFailed(String decisionId, String topologyId, RuntimeException e) {
        LOG.error("decision {} for {} cannot be carried out", decisionId, topologyId, e);
        events.fallback(now.get(), "the bridge failed: " + e);
    }

    /** A rebalance of which there is no plan (a person's, or one that was given up) moves nothing: it is no submission. */
    private void keepWhatWasNotPlanned(Set<String> planned, Topologies topologies, Cluster cluster) {
        for (TopologyDetails topology : topologies) {
            String id = topology.getId();
            if (cluster.getAssignmentById(id) == null && slots.containsKey(id) && !planned.contains(id)) {
                LOG.warn("{} is rebalanced without a plan: everything stays where it was", id);
                Placement.placeUnplaced(cluster, topology, slots.get(id));
            }
        }
    }

    private void remember(Request request) {
        Map<String, Map<Integer, Slot>> known = new HashMap<>();
        request.topologies().stream().filter(topology -> !topology.placement().isEmpty())
            .forEach(topology -> known.put(topology.id(), topology.slots()));
        slots = known;
        if (request.topologies().isEmpty()) {
            lastDecision = null; // decisions of the next run are numbered from 1 again
        }
    }

    private void carryOut(Plan plan, Topologies topologies, Cluster cluster) throws SchedulerFailed {
        TopologyDetails topology = topologies.getById(plan.topologyId());
        if (topology != null && cluster.getAssignmentById(plan.topologyId()) == null && !executorsAreAsPlanned(plan, topology)) {
            Placement.placeUnplaced(cluster, topology, plan.before()); // a rebalance that is not the plan's
        }
        if (topology == null) {
            abort(plan, "the topology is gone");
        } else if (cluster.getAssignmentById(plan.topologyId()) == null && executorsAreAsPlanned(plan, topology)) {
            Optional<String> problem = place(plan, topologies, cluster);
            plans.end(plan);
            report(plan.decisionId(), plan.topologyId(), problem.isEmpty(), problem.orElse("rebalanced"));
        } else if (plans.isRestored(plan) && executorsAreAsPlanned(plan, topology) && Placement.isAsPlanned(cluster, topology, plan)) {
            plans.end(plan);
            report(plan.decisionId(), plan.topologyId(), true, "rebalanced before Nimbus restarted");
        } else if (plans.isOverdue(plan)) {
            abort(plan, Placement.heldByAnother(cluster, plan, plans.all())
                .map(slot -> "another topology has not left slot " + slot + "; nothing was moved")
                .orElse("no rebalance came of it; given up"));
        } else if (!plans.isRequested(plan) && (!plans.isRestored(plan) || rounds >= ROUNDS_OF_A_RESTART)) {
            requestUnlessHeld(plan, cluster);
        } else if (executorsAreAsPlanned(plan, topology) && !cluster.getUnassignedExecutors(topology).isEmpty()) {
            // An ordinary tick between Nimbus's change of executors and the round of the rebalance, which is yet to come.
            place(plan, topologies, cluster);
        }
    }

    /** Returns why it did not go as planned. */
    private Optional<String> place(Plan plan, Topologies topologies, Cluster cluster) throws SchedulerFailed {
        if (plan.scheduler() == null) {
            return Placement.placePlanned(cluster, topologies, plan, plans.all());
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
        reports.add(new Report(decisionId, topologyId, now.get(), ok, message));
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
