package barograph.bridge;

import com.fasterxml.jackson.annotation.JsonProperty;

/** What became of a decision for one topology: the body of POST /applied. `t`: seconds since the epoch. */
record Report(@JsonProperty("decision_id") String decisionId, String topology, double t, boolean ok, String message) {}
