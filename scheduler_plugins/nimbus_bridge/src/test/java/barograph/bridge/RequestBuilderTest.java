package barograph.bridge;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

class RequestBuilderTest {
    private final RequestBuilder builder = new RequestBuilder(new MachineNames());

    static Stream<Path> cases() {
        return Cases.named("even_").stream();
    }

    @ParameterizedTest
    @MethodSource("cases")
    void aRequestSurvivesTheWayThroughStorm(Path file) throws Exception {
        JsonNode request = Cases.read(file).get("request");
        assertEquals(sorted(Cases.JSON.treeToValue(request, Request.class)), sorted(built(RequestCluster.of(request))));
    }

    @Test
    void aMachineThatTheClusterLostKeepsItsNameInTheRequest() throws Exception {
        JsonNode request = Cases.request("star_runs");
        built(RequestCluster.of(request));
        RequestCluster storm = RequestCluster.of(request);
        ((ArrayNode) request.get("machines")).remove(3);
        storm.cluster().getSupervisors().remove("m4-id");
        Request.Machine lost = built(storm).machines().get(3);
        assertEquals("m4", lost.name());
        assertFalse(lost.alive());
        assertEquals("m4:6700", built(storm).topologies().get(0).placement().get(7));
    }

    /** Storm adds them to a topology that has state. */
    @Test
    void checkpointsAreStormsOwn() throws Exception {
        JsonNode request = Cases.request("star_runs");
        JsonNode topology = request.get("topologies").get(0);
        int edges = topology.get("edges").size();
        String target = topology.get("edges").get(0).get("target").asText();
        ((ArrayNode) topology.get("components")).addObject().put("name", "$checkpointspout").put("kind", "spout")
            .<ObjectNode>set("tasks", Cases.JSON.readTree("[99]")).set("executors", Cases.JSON.readTree("[[99,99]]"));
        ((ArrayNode) topology.get("edges")).addObject().put("source", "$checkpointspout").put("stream", "$checkpoint").put("target", target)
            .put("grouping", "all");
        Request.Topology built = built(RequestCluster.of(request)).topologies().get(0);
        assertEquals("system", built.components().get(built.components().size() - 1).kind());
        assertEquals(edges, built.edges().size());
    }

    private Request built(RequestCluster storm) {
        return builder.build(storm.topologies(), storm.cluster(), List.of(), Map.of(), 1763712345.0);
    }

    private static Request sorted(Request request) {
        return new Request(request.v(), request.t(),
            request.machines().stream().sorted((a, b) -> a.supervisorId().compareTo(b.supervisorId())).toList(),
            request.topologies().stream().map(RequestBuilderTest::sorted).toList(), null);
    }

    /** The launch time is kept in whole seconds, so the up-time may be one off. */
    private static Request.Topology sorted(Request.Topology topology) {
        return new Request.Topology(topology.id(), topology.name(), topology.workers(), (topology.uptimeS() + 1) / 10,
            topology.components(), topology.edges().stream().sorted(Request.Edge.ORDER).toList(), topology.placement(),
            topology.planned(), topology.rebalancing(), topology.unplacedWhy(), topology.schedulerError());
    }
}
