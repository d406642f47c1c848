package barograph.topologies;

import java.util.Collection;
import java.util.Map;
import java.util.NavigableMap;
import java.util.TreeMap;

/**
 * Machines at points of a ring of hashes: a key belongs to the machine of the first point from its own hash on (Wu 2015, 7.1.3), so only
 * keys of a machine that joins or leaves change theirs. {@code topologies/keys.py} has the same.
 */
final class HashRing {
    private final NavigableMap<Long, String> points = new TreeMap<>();

    HashRing(Collection<String> machines, int pointsPerMachine) {
        for (String machine : machines) {
            for (int point = 0; point < pointsPerMachine; point++) {
                points.put(mix((machine + "#" + point).hashCode()), machine);
            }
        }
    }

    String machine(int hash) {
        Map.Entry<Long, String> next = points.ceilingEntry(mix(hash));
        return (next == null ? points.firstEntry() : next).getValue();
    }

    /** Spreads hash codes, which are near each other where texts are alike: the last step of MurmurHash3. */
    static long mix(long hash) {
        long mixed = (hash ^ hash >>> 33) * 0xff51afd7ed558ccdL;
        mixed = (mixed ^ mixed >>> 33) * 0xc4ceb9fe1a85ec53L;
        return mixed ^ mixed >>> 33;
    }
}
