package barograph.topologies.opengov;

import barograph.topologies.Line;
import barograph.topologies.PacedSpout;
import barograph.topologies.opengov.PublicRecords.Contract;
import java.util.function.Supplier;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Values;

/** A source of public contracts, each task of the contractors whose names belong to it. */
public final class ContractSpout extends PacedSpout {
    private final long seed;
    private final int companies;
    private final int contractorsPerCompany;
    private final double skew;
    private final DayClock days;
    private final String file;
    private transient Supplier<Contract> contracts;

    /** {@code dayS}: length of a day, in seconds. {@code file}: records; empty: drawn. */
    public ContractSpout(
        double ratePerSecond, long seed, boolean unthrottled, String onRestart,
        int companies, int contractorsPerCompany, double skew, double dayS, String file) {
        super(ratePerSecond, unthrottled, onRestart);
        this.seed = seed;
        this.companies = companies;
        this.contractorsPerCompany = contractorsPerCompany;
        this.skew = skew;
        this.days = new DayClock(dayS);
        this.file = file;
    }

    @Override
    protected void begin(TopologyContext context) {
        int index = context.getThisTaskIndex();
        int tasks = tasks(context);
        contracts = file.isEmpty()
            ? new PublicRecords(seed, companies).contracts(index, tasks, contractorsPerCompany, skew)
            : RecordsFile.of(file).contracts(index, tasks);
    }

    @Override
    protected Values next(double dueMs, String machine) {
        Contract contract = contracts.get();
        return new Values(contract.contractor(), days.at(dueMs), contract.amount(), machine, dueMs);
    }

    @Override
    public void declareOutputFields(OutputFieldsDeclarer declarer) {
        declarer.declare(new Fields("contractor", "day", "amount", Line.SOURCE_MACHINE, Line.DUE_MS));
    }
}
