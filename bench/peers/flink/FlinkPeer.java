import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Locale;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.FlatMapFunction;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.functions.RichMapFunction;
import org.apache.flink.api.common.state.CheckpointListener;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.datagen.source.DataGeneratorSource;
import org.apache.flink.connector.datagen.source.GeneratorFunction;
import org.apache.flink.core.execution.CheckpointingMode;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.util.Collector;

/**
 * The word count of a text on Apache Flink, in one JVM: one parallel chain, counts in keyed state, exactly-once checkpoints.
 *
 * <p>FlinkPeer TEXT CHECKPOINT_FOLDER CHECKPOINT_MILLIS WARM_SECS MEASURE_SECS: runs for that long, prints one line of JSON, and exits.
 */
public final class FlinkPeer {
    /** Words are added up in steps, so that the counter costs nothing. */
    private static final int STEP = 1024;

    static final AtomicLong WORDS = new AtomicLong();
    static final AtomicLong CHECKPOINTS = new AtomicLong();
    private static String[] lines;

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
                WORDS.addAndGet(STEP);
                uncounted = 0;
            }
            return now;
        }

        @Override
        public void notifyCheckpointComplete(long checkpointId) {
            CHECKPOINTS.incrementAndGet();
        }
    }

    private static StreamExecutionEnvironment topology(String checkpointFolder, long checkpointMillis) {
        Configuration settings = new Configuration();
        settings.setString("state.backend.type", "hashmap");
        settings.setString("execution.checkpointing.storage", "filesystem");
        settings.setString("execution.checkpointing.dir", Path.of(checkpointFolder).toUri().toString());
        settings.setString("rest.bind-address", "127.0.0.1");
        settings.setString("rest.bind-port", "0");
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.createLocalEnvironment(1, settings);
        environment.enableCheckpointing(checkpointMillis, CheckpointingMode.EXACTLY_ONCE);
        environment.getConfig().enableObjectReuse();
        DataGeneratorSource<String> source = new DataGeneratorSource<>(new Lines(), Long.MAX_VALUE, Types.STRING);
        environment
            .fromSource(source, WatermarkStrategy.noWatermarks(), "lines")
            .flatMap(new Split())
            .returns(Types.STRING)
            .keyBy(word -> word)
            .map(new Count())
            .sinkTo(new DiscardingSink<>());
        return environment;
    }

    public static void main(String[] args) throws Exception {
        lines = Files.readAllLines(Path.of(args[0])).toArray(new String[0]);
        double warmSecs = Double.parseDouble(args[3]);
        double measureSecs = Double.parseDouble(args[4]);
        topology(args[1], Long.parseLong(args[2])).executeAsync("peer");
        long deadline = System.nanoTime() + 60_000_000_000L;
        while (WORDS.get() == 0 && System.nanoTime() < deadline) {
            Thread.sleep(20);
        }
        Thread.sleep((long) (warmSecs * 1000));
        long before = WORDS.get();
        long checkpointsBefore = CHECKPOINTS.get();
        long from = System.nanoTime();
        Thread.sleep((long) (measureSecs * 1000));
        long words = WORDS.get() - before;
        double secs = (System.nanoTime() - from) / 1e9;
        System.out.printf(
            Locale.ROOT,
            "{\"units\": %d, \"ns\": %.1f, \"per_second\": %.0f, \"checkpoints\": %d, \"cores\": %d}%n",
            words, secs * 1e9 / Math.max(words, 1), words / secs, CHECKPOINTS.get() - checkpointsBefore,
            Runtime.getRuntime().availableProcessors());
        System.out.flush();
        // Only the measurement counts, so nothing is closed.
        Runtime.getRuntime().halt(words > 0 ? 0 : 1);
    }
}
