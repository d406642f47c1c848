package barograph.bridge;

/** A port of a machine, written m1:6700. */
record Slot(String machine, int port) {

    static Slot parse(String text) {
        int colon = text.lastIndexOf(':');
        if (colon < 1 || !text.substring(colon + 1).matches("\\d{1,5}")) {
            throw new IllegalArgumentException("slot \"" + text + "\" is not of the form machine:port");
        }
        return new Slot(text.substring(0, colon), Integer.parseInt(text.substring(colon + 1)));
    }

    @Override
    public String toString() {
        return machine + ":" + port;
    }
}
