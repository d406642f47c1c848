package barograph.bridge;

import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import org.apache.storm.scheduler.Cluster;
import org.apache.storm.scheduler.SupervisorDetails;
import org.apache.storm.scheduler.WorkerSlot;

/**
 * Storm knows machines by supervisor id, policies by name. A machine that died is gone from the cluster while
 * assignments still name it, so names are remembered.
 */
final class MachineNames {
    private final Map<String, String> nameById = new HashMap<>();

    /** Throws AmbiguousMachine where two supervisors share a name. */
    synchronized void learn(Cluster cluster) {
        Map<String, String> idByName = new HashMap<>();
        for (SupervisorDetails supervisor : new TreeMap<>(cluster.getSupervisors()).values()) {
            String other = idByName.put(supervisor.getHost(), supervisor.getId());
            if (other != null) {
                throw new AmbiguousMachine("supervisors " + other + " and " + supervisor.getId() + " are both named "
                    + supervisor.getHost() + "; set storm.local.hostname");
            }
            nameById.put(supervisor.getId(), supervisor.getHost());
        }
    }

    synchronized String of(String supervisorId) {
        return nameById.getOrDefault(supervisorId, supervisorId);
    }

    Slot slot(WorkerSlot slot) {
        return new Slot(of(slot.getNodeId()), slot.getPort());
    }

    /** Storm's slot if the machine is there and offers the port. */
    static Optional<WorkerSlot> offered(Cluster cluster, Slot slot) {
        return cluster.getSupervisors().values().stream()
            .filter(supervisor -> supervisor.getHost().equals(slot.machine()))
            .filter(supervisor -> cluster.getAssignablePorts(supervisor).contains(slot.port()))
            .map(supervisor -> new WorkerSlot(supervisor.getId(), slot.port()))
            .findFirst();
    }

    /** Storm's slot if a worker can run there now: it is offered, and no other topology has it. */
    static Optional<WorkerSlot> usable(Cluster cluster, Slot slot, String topologyId) {
        return offered(cluster, slot).filter(found ->
            !cluster.isSlotOccupied(found) || cluster.getUsedSlotsByTopologyId(topologyId).contains(found));
    }
}
