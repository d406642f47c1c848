package barograph.topologies.measure;

import java.util.Map;
import org.apache.storm.daemon.Acker;
import org.apache.storm.daemon.StormCommon;
import org.apache.storm.hooks.BaseTaskHook;
import org.apache.storm.hooks.info.BoltAckInfo;
import org.apache.storm.hooks.info.BoltExecuteInfo;
import org.apache.storm.hooks.info.EmitInfo;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.utils.ObjectReader;

/**
 * Counts what a task emits and executes; goes under {@code topology.auto.task.hooks}.
 *
 * <p>Storm's own tasks and streams (names starting with {@code __} or, of its checkpoints, {@code $})
 * are not counted, but for what its ackers execute. A number leaves
 * through {@link SamplesReporter}, which finds the counters in the worker's metric registry.
 */
public final class MeasuringHook extends BaseTaskHook {
    private TaskCounters counters;

    TaskCounters counters() {
        return counters;
    }

    @Override
    public void prepare(Map<String, Object> conf, TopologyContext context) {
        boolean isWaitTimed = BackPressureWait.isSetIn(conf);
        if (Acker.ACKER_COMPONENT_ID.equals(context.getThisComponentId())) {
            counters = TaskCounters.ofAcker(context, isWaitTimed);
        } else if (TaskCounters.isSystem(context.getThisComponentId())) {
            return;
        } else {
            boolean withTraffic = ObjectReader.getBoolean(conf.get(Settings.TRAFFIC), false);
            counters = TaskCounters.of(context, StormCommon.hasAckers(conf), withTraffic, isWaitTimed);
            counters.queueLimit(ObjectReader.getInt(conf.get(Settings.QUEUE_LIMIT), 0));
        }
        context.registerGauge(TaskCounters.GAUGE, counters);
    }

    @Override
    public void emit(EmitInfo info) {
        if (counters != null) {
            counters.emitted(info.stream, info.outTasks);
        }
    }

    @Override
    public void boltExecute(BoltExecuteInfo info) {
        if (counters != null && !counters.isCountedByComponent()) {
            counters.executed(info.tuple, info.executeLatencyMs);
        }
    }

    @Override
    public void boltAck(BoltAckInfo info) {
        if (counters != null) {
            counters.processed(info.tuple, info.processLatencyMs);
        }
    }
}
