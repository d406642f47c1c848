package barograph.topologies.opengov;

import barograph.topologies.Line;
import barograph.topologies.TupleBolt;
import java.util.Map;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.tuple.Values;

/** Puts in the place of a contractor the traded company that it belongs to. */
public final class ParentBolt extends TupleBolt {
    private final int companies;
    private final String file;
    private transient Map<String, String> parents;

    /** {@code file}: records; empty: as they are drawn with so many companies. */
    public ParentBolt(int companies, String file) {
        this.companies = companies;
        this.file = file;
    }

    @Override
    protected void begin(TopologyContext context) {
        parents = file.isEmpty() ? null : RecordsFile.of(file).parents();
    }

    @Override
    protected void handle(Tuple tuple) {
        String contractor = tuple.getString(0);
        String company = parents == null ? Companies.parent(contractor, companies) : parents.get(contractor);
        emit(tuple, new Values(company, tuple.getLong(1), tuple.getDouble(2), tuple.getValue(3), tuple.getValue(4)));
    }

    @Override
    public void declareOutputFields(OutputFieldsDeclarer declarer) {
        declarer.declare(new Fields("company", "day", "amount", Line.SOURCE_MACHINE, Line.DUE_MS));
    }
}
