package barograph.topologies.opengov;

import java.util.List;
import org.apache.storm.utils.TupleUtils;

/**
 * Names of traded companies and of the contractors that belong to them, by number: the same in every task, run and language
 * (topologies/public_records.py has them too).
 */
final class Companies {
    static final int SHORTEST = 34;
    static final int LONGEST = 80;
    private static final int DIGITS = 7;
    private static final int SYMBOL_LETTERS = 6;
    private static final int LETTERS = 26;
    private static final int SPREAD = 29; // lengths of names that follow each other differ
    private static final String REST = " of the register of traded companies, of those that they own, and of their seats";

    private Companies() {
    }

    /** Under which its shares are traded: six letters. */
    static String symbol(int number) {
        char[] letters = new char[SYMBOL_LETTERS];
        int left = number;
        for (int i = SYMBOL_LETTERS - 1; i >= 0; i--) {
            letters[i] = (char) ('A' + left % LETTERS);
            left /= LETTERS;
        }
        return new String(letters);
    }

    /** 34 to 80 characters. */
    static String company(int number) {
        return name('C', number);
    }

    /** 34 to 80 characters. */
    static String contractor(int number) {
        return name('S', number);
    }

    /** The company that a contractor of this name belongs to, where there are so many. */
    static String parent(String contractor, int companies) {
        return company(Integer.parseInt(contractor, 1, 1 + DIGITS, 10) % companies);
    }

    private static String name(char kind, int number) {
        int length = SHORTEST + (int) ((long) number * SPREAD % (LONGEST - SHORTEST + 1));
        StringBuilder name = new StringBuilder(length).append(kind);
        for (int power = 1_000_000; power > 0; power /= 10) {
            name.append((char) ('0' + number / power % 10));
        }
        return name.append(REST, 0, length - name.length()).toString();
    }

    /** Whether a grouping by this key sends a tuple to that one of so many tasks: so sources divide companies among themselves. */
    static boolean isOf(String key, int index, int tasks) {
        return TupleUtils.chooseTaskIndex(List.of(key), tasks) == index;
    }
}
