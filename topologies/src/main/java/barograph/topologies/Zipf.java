package barograph.topologies;

import java.util.Arrays;
import java.util.SplittableRandom;

/** Draws one of some numbers, each the less often the higher it is: its weight is its rank, the number + 1, to the power of -exponent. */
public final class Zipf {
    private final int[] numbers;
    private final double[] sums;

    public Zipf(int[] numbers, double exponent) {
        this.numbers = numbers;
        this.sums = new double[numbers.length];
        double sum = 0;
        for (int i = 0; i < numbers.length; i++) {
            sum += Math.pow(numbers[i] + 1.0, -exponent);
            sums[i] = sum;
        }
    }

    public int next(SplittableRandom random) {
        int place = Arrays.binarySearch(sums, random.nextDouble() * sums[sums.length - 1]);
        return numbers[Math.min(place < 0 ? -place - 1 : place, numbers.length - 1)];
    }
}
