import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.atomic.LongAdder;
import org.apache.storm.Config;
import org.apache.storm.LocalCluster;
import org.apache.storm.spout.SpoutOutputCollector;
import org.apache.storm.task.OutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.TopologyBuilder;
import org.apache.storm.topology.base.BaseRichBolt;
import org.apache.storm.topology.base.BaseRichSpout;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.tuple.Values;

/**
 * The works of the benchmark on Apache Storm's LocalCluster: spout, bolts and acker in threads of one JVM, on every core it finds.
 *
 * <p>StormPeer WORK acked|un-acked WARM_SECS MEASURE_SECS MAX_SPOUT_PENDING: runs for that long, prints one line of JSON, and exits.
 * WORK is const-null, const-id-null or word-count. Pending 0 means no bound. A unit is a spout tuple, in word-count a word.
 */
public final class StormPeer {
    static final String SENTENCE = "the quick brown fox jumps over the lazy dog";
    static final int WORDS = SENTENCE.split(" ").length;
    /** Adders of one JVM: LocalCluster runs every task in this process. */
    static final LongAdder ACKED = new LongAdder();
    static final LongAdder EXECUTED = new LongAdder();
    static final LongAdder FAILED = new LongAdder();

    private StormPeer() {}

    /** Emits the same value forever, with a message id if trees are tracked. */
    public static final class ConstSpout extends BaseRichSpout {
        private final String value;
        private final boolean acked;
        private SpoutOutputCollector collector;
        private long emitted;

        public ConstSpout(String value, boolean acked) {
            this.value = value;
            this.acked = acked;
        }

        @Override
        public void open(Map<String, Object> conf, TopologyContext context, SpoutOutputCollector collector) {
            this.collector = collector;
        }

        @Override
        public void nextTuple() {
            if (acked) {
                collector.emit(new Values(value), ++emitted);
            } else {
                collector.emit(new Values(value));
            }
        }

        @Override
        public void ack(Object messageId) {
            ACKED.increment();
        }

        @Override
        public void fail(Object messageId) {
            FAILED.increment();
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
            declarer.declare(new Fields("value"));
        }
    }

    /** Acks. */
    public static class Null extends BaseRichBolt {
        protected OutputCollector collector;

        @Override
        public void prepare(Map<String, Object> conf, TopologyContext context, OutputCollector collector) {
            this.collector = collector;
        }

        @Override
        public void execute(Tuple tuple) {
            EXECUTED.increment();
            collector.ack(tuple);
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {}
    }

    /** Emits each tuple again, anchored. */
    public static final class Identity extends Null {
        @Override
        public void execute(Tuple tuple) {
            collector.emit(tuple, new Values(tuple.getValue(0)));
            collector.ack(tuple);
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
            declarer.declare(new Fields("value"));
        }
    }

    /** Emits each word, anchored. */
    public static final class Split extends Null {
        @Override
        public void execute(Tuple tuple) {
            for (String word : tuple.getString(0).split(" ")) {
                collector.emit(tuple, new Values(word));
            }
            collector.ack(tuple);
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
            declarer.declare(new Fields("word"));
        }
    }

    /** Counts words. */
    public static final class Count extends Null {
        private final Map<String, Long> counts = new HashMap<>();

        @Override
        public void execute(Tuple tuple) {
            counts.merge(tuple.getString(0), 1L, Long::sum);
            collector.ack(tuple);
        }
    }

    private static TopologyBuilder topology(String work, boolean acked) {
        TopologyBuilder builder = new TopologyBuilder();
        switch (work) {
            case "const-null":
                builder.setSpout("spout", new ConstSpout("hello", acked), 1);
                builder.setBolt("null", new Null(), 1).localOrShuffleGrouping("spout");
                return builder;
            case "const-id-null":
                builder.setSpout("spout", new ConstSpout("hello", acked), 1);
                builder.setBolt("id", new Identity(), 1).localOrShuffleGrouping("spout");
                builder.setBolt("null", new Null(), 1).localOrShuffleGrouping("id");
                return builder;
            case "word-count":
                builder.setSpout("spout", new ConstSpout(SENTENCE, acked), 1);
                builder.setBolt("split", new Split(), 2).localOrShuffleGrouping("spout");
                builder.setBolt("count", new Count(), 4).fieldsGrouping("split", new Fields("word"));
                return builder;
            default:
                throw new IllegalArgumentException("unknown work: " + work);
        }
    }

    /** The settings of Storm's own throughput topologies. */
    private static Config settings(boolean acked, int pending) {
        Config conf = new Config();
        conf.setNumAckers(acked ? 1 : 0);
        conf.put(Config.TOPOLOGY_SPOUT_RECVQ_SKIPS, 8);
        conf.put(Config.TOPOLOGY_PRODUCER_BATCH_SIZE, 500);
        conf.put(Config.TOPOLOGY_EXECUTOR_RECEIVE_BUFFER_SIZE, 50_000);
        conf.put(Config.TOPOLOGY_DISABLE_LOADAWARE_MESSAGING, true);
        conf.put(Config.TOPOLOGY_STATS_SAMPLE_RATE, 0.0005);
        if (pending > 0) {
            conf.setMaxSpoutPending(pending);
        }
        return conf;
    }

    public static void main(String[] args) throws Exception {
        String work = args[0];
        boolean acked = args[1].equals("acked");
        double warmSecs = Double.parseDouble(args[2]);
        double measureSecs = Double.parseDouble(args[3]);
        int pending = Integer.parseInt(args[4]);
        LongAdder done = acked ? ACKED : EXECUTED;
        long unitsPerTuple = work.equals("word-count") ? WORDS : 1;
        if (!acked && !work.equals("const-null")) {
            throw new IllegalArgumentException("un-acked is measured for const-null only");
        }

        long start = System.nanoTime();
        LocalCluster cluster = new LocalCluster();
        cluster.submitTopology("peer", settings(acked, pending), topology(work, acked).createTopology());
        long deadline = start + 60_000_000_000L;
        while (done.sum() == 0 && System.nanoTime() < deadline) {
            Thread.sleep(20);
        }
        double firstSecs = (System.nanoTime() - start) / 1e9;
        Thread.sleep((long) (warmSecs * 1000));
        long before = done.sum();
        long from = System.nanoTime();
        Thread.sleep((long) (measureSecs * 1000));
        long units = (done.sum() - before) * unitsPerTuple;
        double secs = (System.nanoTime() - from) / 1e9;
        System.out.printf(
            java.util.Locale.ROOT,
            "{\"work\": \"%s\", \"acked\": %b, \"units\": %d, \"ns\": %.1f, \"per_second\": %.0f, \"failed\": %d, \"first_secs\": %.2f, \"cores\": %d}%n",
            work, acked, units, secs * 1e9 / Math.max(units, 1), units / secs, FAILED.sum(), firstSecs,
            Runtime.getRuntime().availableProcessors());
        System.out.flush();
        // Closing a LocalCluster takes longer than the measurement and can hang on its threads. The result is already printed.
        Runtime.getRuntime().halt(units > 0 ? 0 : 1);
    }
}
