import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.Locale;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.AggregateFunction;
import org.apache.flink.api.common.functions.FlatMapFunction;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.functions.RichMapFunction;
import org.apache.flink.api.common.state.CheckpointListener;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.datagen.source.DataGeneratorSource;
import org.apache.flink.connector.datagen.source.GeneratorFunction;
import org.apache.flink.core.execution.CheckpointingMode;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.streaming.api.windowing.assigners.TumblingEventTimeWindows;
import org.apache.flink.util.Collector;

/**
 * Works on Apache Flink, in one JVM, with keyed state and exactly-once checkpoints. Each runs for a while, prints one line of JSON, and
 * exits.
 *
 * <p>FlinkPeer words CHECKPOINT_FOLDER CHECKPOINT_MILLIS WARM_SECS MEASURE_SECS TEXT: the word count of a text, in one parallel chain.
 *
 * <p>FlinkPeer windows CHECKPOINT_FOLDER CHECKPOINT_MILLIS WARM_SECS MEASURE_SECS KEYS ROWS_PER_SECOND WINDOW_SECS: counts of keys in
 * tumbling windows of event time. The source has one task, the windows have two. The rows of a result count when the result is there.
 */
public final class FlinkPeer {
    /** Words are added up in steps, so that the counter costs nothing. */
    private static final int STEP = 1024;
    /** As in bench/streams/hits.py: a prime in which the keys come, and the time of the first row. */
    private static final int KEY_STEP = 7919;
    private static final long START_MILLIS = 1_700_000_000_000L;

    static final AtomicLong UNITS = new AtomicLong();
    static final AtomicLong CHECKPOINTS = new AtomicLong();
    private static String[] lines;
    private static String[] keys;
    private static long rowsPerSecond;

    private FlinkPeer() {}

    /** Emits the lines of the text again and again. */
    public static final class Lines implements GeneratorFunction<Long, String> {
        @Override
        public String map(Long index) {
            return lines[(int) (index % lines.length)];
        }
    }

    /** Emits each word. */
    public static final class Split implements FlatMapFunction<String, String> {
        @Override
        public void flatMap(String line, Collector<String> words) {
            for (String word : line.split("\\s+")) {
                if (!word.isEmpty()) {
                    words.collect(word);
                }
            }
        }
    }

    /** Counts words. */
    public static final class Count extends RichMapFunction<String, Long> implements CheckpointListener {
        private transient ValueState<Long> counts;
        private transient int uncounted;

        @Override
        public void open(OpenContext context) {
            counts = getRuntimeContext().getState(new ValueStateDescriptor<>("counts", Types.LONG));
        }

        @Override
        public Long map(String word) throws Exception {
            Long before = counts.value();
            long now = before == null ? 1 : before + 1;
            counts.update(now);
            if (++uncounted == STEP) {
                UNITS.addAndGet(STEP);
                uncounted = 0;
            }
            return now;
        }

        @Override
        public void notifyCheckpointComplete(long checkpointId) {
            CHECKPOINTS.incrementAndGet();
        }
    }

    /** Emits rows with a key and a time, in the order of their times. */
    public static final class Hits implements GeneratorFunction<Long, Tuple2<String, Long>> {
        @Override
        public Tuple2<String, Long> map(Long index) {
            return Tuple2.of(keys[(int) (index * KEY_STEP % keys.length)], START_MILLIS + index * 1000 / rowsPerSecond);
        }
    }

    /** Counts the rows of a window. */
    public static final class CountRows implements AggregateFunction<Tuple2<String, Long>, Long, Long> {
        @Override
        public Long createAccumulator() {
            return 0L;
        }

        @Override
        public Long add(Tuple2<String, Long> row, Long count) {
            return count + 1;
        }

        @Override
        public Long getResult(Long count) {
            return count;
        }

        @Override
        public Long merge(Long count, Long other) {
            return count + other;
        }
    }

    /** Adds up the rows of the results. */
    public static final class AddUp extends RichMapFunction<Long, Long> implements CheckpointListener {
        @Override
        public Long map(Long count) {
            UNITS.addAndGet(count);
            return count;
        }

        @Override
        public void notifyCheckpointComplete(long checkpointId) {
            if (getRuntimeContext().getTaskInfo().getIndexOfThisSubtask() == 0) {
                CHECKPOINTS.incrementAndGet();
            }
        }
    }

    private static StreamExecutionEnvironment environment(String checkpointFolder, long checkpointMillis, int parallelism) {
        Configuration settings = new Configuration();
        settings.setString("state.backend.type", "hashmap");
        settings.setString("execution.checkpointing.storage", "filesystem");
        settings.setString("execution.checkpointing.dir", Path.of(checkpointFolder).toUri().toString());
        settings.setString("rest.bind-address", "127.0.0.1");
        settings.setString("rest.bind-port", "0");
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.createLocalEnvironment(parallelism, settings);
        environment.enableCheckpointing(checkpointMillis, CheckpointingMode.EXACTLY_ONCE);
        environment.getConfig().enableObjectReuse();
        return environment;
    }

    private static void addWords(StreamExecutionEnvironment environment) {
        DataGeneratorSource<String> source = new DataGeneratorSource<>(new Lines(), Long.MAX_VALUE, Types.STRING);
        environment
            .fromSource(source, WatermarkStrategy.noWatermarks(), "lines")
            .flatMap(new Split())
            .returns(Types.STRING)
            .keyBy(word -> word)
            .map(new Count())
            .sinkTo(new DiscardingSink<>());
    }

    private static void addWindows(StreamExecutionEnvironment environment, Duration size) {
        DataGeneratorSource<Tuple2<String, Long>> source =
            new DataGeneratorSource<>(new Hits(), Long.MAX_VALUE, Types.TUPLE(Types.STRING, Types.LONG));
        WatermarkStrategy<Tuple2<String, Long>> times =
            WatermarkStrategy.<Tuple2<String, Long>>forMonotonousTimestamps().withTimestampAssigner((row, before) -> row.f1);
        environment
            .fromSource(source, times, "hits")
            .setParallelism(1)
            .keyBy(row -> row.f0)
            .window(TumblingEventTimeWindows.of(size))
            .aggregate(new CountRows())
            .map(new AddUp())
            .sinkTo(new DiscardingSink<>());
    }

    public static void main(String[] args) throws Exception {
        double warmSecs = Double.parseDouble(args[3]);
        double measureSecs = Double.parseDouble(args[4]);
        boolean hasWindows = args[0].equals("windows");
        StreamExecutionEnvironment environment = environment(args[1], Long.parseLong(args[2]), hasWindows ? 2 : 1);
        if (hasWindows) {
            keys = new String[Integer.parseInt(args[5])];
            Arrays.setAll(keys, number -> "key " + number);
            rowsPerSecond = Long.parseLong(args[6]);
            addWindows(environment, Duration.ofSeconds(Long.parseLong(args[7])));
        } else {
            lines = Files.readAllLines(Path.of(args[5])).toArray(new String[0]);
            addWords(environment);
        }
        environment.executeAsync("peer");
        long deadline = System.nanoTime() + 60_000_000_000L;
        while (UNITS.get() == 0 && System.nanoTime() < deadline) {
            Thread.sleep(20);
        }
        Thread.sleep((long) (warmSecs * 1000));
        long before = UNITS.get();
        long checkpointsBefore = CHECKPOINTS.get();
        long from = System.nanoTime();
        Thread.sleep((long) (measureSecs * 1000));
        long units = UNITS.get() - before;
        double secs = (System.nanoTime() - from) / 1e9;
        System.out.printf(
            Locale.ROOT,
            "{\"units\": %d, \"ns\": %.1f, \"per_second\": %.0f, \"checkpoints\": %d, \"cores\": %d}%n",
            units, secs * 1e9 / Math.max(units, 1), units / secs, CHECKPOINTS.get() - checkpointsBefore,
            Runtime.getRuntime().availableProcessors());
        System.out.flush();
        // Only the measurement counts, so nothing is closed.
        Runtime.getRuntime().halt(units > 0 ? 0 : 1);
    }
}
