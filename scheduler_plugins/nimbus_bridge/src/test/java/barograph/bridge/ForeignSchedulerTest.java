package barograph.bridge;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.storm.scheduler.EvenScheduler;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Rounds in which a scheduler that is not ours places, throws, hangs, or is none. */
class ForeignSchedulerTest {
    private static final String STAR = "star-1-1763712300";
    private static final String SCHEDULER = """
        package theirs;
        import java.util.Map;
        import org.apache.storm.metric.StormMetricsRegistry;
        import org.apache.storm.scheduler.*;
        public class NAME implements IScheduler {
            private Map<String, Object> conf;
            public void prepare(Map<String, Object> conf, StormMetricsRegistry registry) { this.conf = conf; PREPARE }
            public void schedule(Topologies topologies, Cluster cluster) { SCHEDULE }
            public Map<String, Map<String, Double>> config() { return Map.of(); }
        }
        """;

    @TempDir
    Path folder;
    private Path events;
    private World world;
    private JsonNode placed;
    private JsonNode fresh;

    @BeforeEach
    void read() {
        events = folder.resolve("bridge.jsonl");
        world = new World(events);
        placed = Cases.request("star_runs");
        fresh = placed.deepCopy();
        ((ObjectNode) fresh.get("topologies").get(0)).putObject("placement");
    }

    @Test
    void itPlacesAndSeesItsConfAndItsFiles() throws Exception {
        Files.writeString(Files.createDirectories(folder.resolve("foreign/files")).resolve("placement.csv"), "task,machine");
        jar("Even", "", "if (!\"yes\".equals(conf.get(\"asked\"))) throw new IllegalStateException(\"no conf\");"
            + " if (!new java.io.File(String.valueOf(conf.get(\"barograph.files\")), \"placement.csv\").isFile())"
            + " throw new IllegalStateException(\"no file\");"
            + " new EvenScheduler().schedule(topologies, cluster);");
        answer("theirs.Even", "{\"asked\": \"yes\"}", false);
        RequestCluster storm = RequestCluster.of(fresh);
        new EvenScheduler().schedule(storm.topologies(), storm.cluster());
        assertEquals(storm.placement(STAR), world.round(RequestCluster.of(fresh)).placement(STAR));
        assertFalse(Files.exists(events));
    }

    @Test
    void whatItThrowsIsToldOnceAndNothingIsPlacedInItsStead() throws Exception {
        jar("Throws", "", "throw new IllegalStateException(\"boom\", new RuntimeException(\"the fuse\"));");
        answer("theirs.Throws", "{}", false);
        assertEquals(Map.of(), world.round(RequestCluster.of(fresh)).placement(STAR));
        JsonNode event = event(0);
        assertEquals("scheduler_failed", event.get("kind").asText());
        assertEquals("theirs.Throws threw java.lang.IllegalStateException: boom, because of java.lang.RuntimeException: the fuse"
            + " at theirs.Throws.schedule(Throws.java:8)", event.get("reason").asText());
        assertEquals("theirs.Throws.schedule(Throws.java:8)", event.get("frames").get(0).asText());
        world.answer = World.json(World.NOTHING);
        world.round(RequestCluster.of(fresh));
        world.round(RequestCluster.of(fresh));
        assertNull(world.requests.get(0).topology(STAR).orElseThrow().schedulerError());
        assertEquals(event.get("reason").asText(), world.requests.get(1).topology(STAR).orElseThrow().schedulerError());
        assertNull(world.requests.get(2).topology(STAR).orElseThrow().schedulerError());
        assertEquals(1, Files.readAllLines(events).size());
    }

    @Test
    void theErrorStandsInTheRequestAsJson() throws Exception {
        jar("Throws", "", "throw new StackOverflowError();");
        answer("theirs.Throws", "{}", false);
        world.round(RequestCluster.of(fresh));
        world.round(RequestCluster.of(fresh));
        JsonNode topology = Cases.JSON.valueToTree(world.requests.get(1)).get("topologies").get(0);
        assertTrue(topology.get("scheduler_error").asText().startsWith("theirs.Throws threw java.lang.StackOverflowError"));
        assertFalse(Cases.JSON.valueToTree(world.requests.get(0)).get("topologies").get(0).has("scheduler_error"));
    }

    @Test
    void oneThatHangsIsGivenUpAndTheNextRoundIsPrompt() throws Exception {
        jar("Hangs", "", "while (true) { try { Thread.sleep(60000); } catch (InterruptedException e) { } }");
        answer("theirs.Hangs", "{}", false);
        assertEquals(Map.of(), world.round(RequestCluster.of(fresh)).placement(STAR));
        assertTrue(event(0).get("reason").asText().startsWith("theirs.Hangs did not answer within 10.0 s; it was at "));
        assertTrue(event(0).get("frames").toString().contains("theirs.Hangs.schedule"), event(0).toString());
        answer("even", "{}", false);
        assertEquals(20, world.round(RequestCluster.of(fresh)).placement(STAR).size(), "Nimbus goes on");
    }

    @Test
    void whatItDidBeforeItThrewIsForgotten() throws Exception {
        jar("Half", "", "new EvenScheduler().schedule(topologies, cluster); throw new RuntimeException(\"late\");");
        answer("theirs.Half", "{}", false);
        assertEquals(Map.of(), world.round(RequestCluster.of(fresh)).placement(STAR));
    }

    @Test
    void aSlotThatNobodyOffersIsRefusedBeforeNimbusSeesIt() throws Exception {
        jar("Nowhere", "", "for (TopologyDetails t : topologies)"
            + " cluster.assign(new WorkerSlot(\"m1-id\", 9999), t.getId(), t.getExecutors());");
        answer("theirs.Nowhere", "{}", false);
        assertEquals(Map.of(), world.round(RequestCluster.of(fresh)).placement(STAR));
        assertTrue(event(0).get("reason").asText().contains("theirs.Nowhere placed executors of " + STAR + " on m1-id:9999"),
            event(0).toString());
    }

    @Test
    void aRebalanceThatItFailsMovesNothing() throws Exception {
        jar("Once", "", "if (cluster.getAssignmentById(\"" + STAR + "\") == null) throw new RuntimeException(\"twice\");");
        answer("theirs.Once", "{}", true);
        Map<String, String> before = RequestCluster.of(placed).placement(STAR);
        world.round(RequestCluster.of(placed));
        assertEquals(before, world.rebalanceRound(placed).placement(STAR));
        assertFalse(world.reports.get(0).ok());
        assertEquals("scheduler_failed", event(0).get("kind").asText());
    }

    @Test
    void withoutATopologyItIsNotAsked() throws Exception {
        jar("Throws", "", "throw new RuntimeException();");
        answer("theirs.Throws", "{}", false);
        ((ArrayNode) fresh.get("topologies")).removeAll();
        world.round(RequestCluster.of(fresh));
        assertFalse(Files.exists(events));
    }

    @Test
    void oneThatCannotBePreparedSaysSo() throws Exception {
        jar("Unready", "throw new RuntimeException(\"no settings\");", "");
        answer("theirs.Unready", "{}", false);
        world.round(RequestCluster.of(fresh));
        assertTrue(event(0).get("reason").asText().startsWith("theirs.Unready threw java.lang.RuntimeException: no settings"));
    }

    @Test
    void itsOwnClassesAreNotNimbuses() throws Exception {
        jar("Even", "", "new EvenScheduler().schedule(topologies, cluster);");
        answer("theirs.Even", "{}", false);
        world.round(RequestCluster.of(fresh));
        assertThrows(ClassNotFoundException.class, () -> Class.forName("theirs.Even"));
    }

    @ParameterizedTest
    @CsvSource(delimiter = ';', value = {
        "theirs.Nobody; public class Kept {}; class theirs.Nobody of theirs.jar is not there",
        "theirs.Kept; public class Kept {}; class theirs.Kept of theirs.jar is no org.apache.storm.scheduler.IScheduler",
        "theirs.Kept; public abstract class Kept implements org.apache.storm.scheduler.IScheduler {}; class theirs.Kept of theirs.jar is public abstract",
        "theirs.Kept; public class Kept extends org.apache.storm.scheduler.EvenScheduler { private Kept() {} }; class theirs.Kept of theirs.jar has no public constructor",
        "theirs.Kept; public class Kept extends Gone {} class Gone extends org.apache.storm.scheduler.EvenScheduler {}; class theirs.Kept of theirs.jar cannot be loaded",
    })
    void whatIsNoSchedulerIsNamedWithItsJar(String name, String source, String message) throws Exception {
        Path jar = Jars.make(folder, "theirs.jar", Map.of("theirs.Kept", "package theirs; " + source), classPath(), "theirs/K");
        String said = assertThrows(SchedulerFailed.class, () -> ForeignClass.load(List.of(jar), name)).getMessage();
        assertTrue(said.startsWith(message), said);
    }

    @Test
    void oneOfAnotherStormLacksAMethod() throws Exception {
        Map<String, String> sources = new HashMap<>();
        sources.put("org.apache.storm.scheduler.Topologies", "package org.apache.storm.scheduler; public class Topologies {}");
        sources.put("org.apache.storm.scheduler.Cluster", "package org.apache.storm.scheduler; public class Cluster {}");
        sources.put("org.apache.storm.scheduler.IScheduler", "package org.apache.storm.scheduler; public interface IScheduler {"
            + " void prepare(java.util.Map conf); void schedule(Topologies t, Cluster c); }");
        sources.put("theirs.Old", "package theirs; import org.apache.storm.scheduler.*; public class Old implements IScheduler {"
            + " public void prepare(java.util.Map conf) {} public void schedule(Topologies t, Cluster c) {} }");
        Path jar = Jars.make(folder, "old.jar", sources, "", "theirs/");
        String said = assertThrows(SchedulerFailed.class, () -> ForeignClass.load(List.of(jar), "theirs.Old")).getMessage();
        assertTrue(said.contains("prepare(Map, StormMetricsRegistry)"), said);
        assertTrue(said.contains("another Storm"), said);
    }

    @Test
    void whatItsMethodsNeedAndNobodyHasIsNamed() throws Exception {
        Map<String, String> sources = new HashMap<>();
        sources.put("gone.Lists", "package gone; public class Lists { public static void sort() {} }");
        sources.put("theirs.Help", "package theirs; class Help { static void help() { gone.Lists.sort(); } }");
        sources.put("theirs.Uses", SCHEDULER.replace("NAME", "Uses").replace("PREPARE", "").replace("SCHEDULE", "Help.help();"));
        Path without = Jars.make(folder, "without.jar", sources, classPath(), "theirs/");
        try (ForeignClass found = ForeignClass.load(List.of(without), "theirs.Uses")) {
            String said = assertThrows(SchedulerFailed.class, found::requireReferences).getMessage();
            assertTrue(said.startsWith("class theirs.Help needs gone.Lists, which neither the jar nor Storm has"), said);
        }
        Path whole = Jars.make(folder, "whole.jar", sources, classPath(), "");
        try (ForeignClass found = ForeignClass.load(List.of(whole), "theirs.Uses")) {
            found.requireReferences();
        }
    }

    private void jar(String name, String prepare, String schedule) throws IOException {
        String source = SCHEDULER.replace("NAME", name).replace("PREPARE", prepare).replace("SCHEDULE", schedule);
        Jars.make(folder, "theirs.jar", Map.of("theirs." + name, source), classPath(), "theirs/");
    }

    private static String classPath() {
        return System.getProperty("java.class.path");
    }

    private void answer(String name, String conf, boolean rebalance) {
        String scheduler = name.contains(".") ? "\"foreign\", \"class_name\": \"" + name + "\"" : "\"" + name + "\"";
        world.answer = World.json("{\"v\": 2, \"decision_id\": " + (rebalance ? "\"d17\"" : "null")
            + ", \"policy\": \"foreign\", \"reason\": \"\", \"topologies\": {}, \"scheduler\": {\"name\": " + scheduler
            + ", \"conf\": " + conf + "}, \"rebalance\": [" + (rebalance ? "\"" + STAR + "\"" : "") + "]}");
    }

    private JsonNode event(int place) throws IOException {
        return World.json(Files.readAllLines(events).get(place));
    }
}
