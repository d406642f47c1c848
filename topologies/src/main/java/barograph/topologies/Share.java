package barograph.topologies;

/** A part of a whole, as a parameter of a component. */
final class Share {
    private Share() {
    }

    static double of(String name, double share) {
        if (!(share > 0 && share <= 1)) {
            throw new IllegalArgumentException(name + " is " + share + "; it must be above 0 and at most 1");
        }
        return share;
    }
}
