import java.util.Locale;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.storm.Config;
import org.apache.storm.LocalCluster;
import org.apache.storm.kafka.spout.FirstPollOffsetStrategy;
import org.apache.storm.kafka.spout.KafkaSpout;
import org.apache.storm.kafka.spout.KafkaSpoutConfig;
import org.apache.storm.task.OutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.TopologyBuilder;
import org.apache.storm.topology.base.BaseRichBolt;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.tuple.Values;

/**
 * Storm's own Kafka spout and a bolt that acks, on Storm's LocalCluster: spout, bolt and acker in threads of one JVM.
 *
 * <p>KafkaPeer WARM_RECORDS MAX_SPOUT_PENDING MAX_POLL_RECORDS COMMIT_MS ADDRESS TOPIC GROUP RECORDS STARTED: reads the whole topic at
 * least once, waits until all of it is committed, prints one line of JSON, and exits. The clock starts after the first WARM_RECORDS,
 * because the JVM is still compiling before. STARTED is seconds of the monotonic clock, as System.nanoTime() counts on Linux.
 */
public final class KafkaPeer {
    private static final double NANOS = 1e9;
    private static final long TIMEOUT_SECS = 150;

    private KafkaPeer() {}

    /** Acks. Notes the times of the first record, of the start of the clock, and of the last record. One task in the JVM of LocalCluster. */
    public static final class Count extends BaseRichBolt {
        static volatile long firstAt;
        static volatile long fromAt;
        static volatile long lastAt;
        static final CountDownLatch ALL = new CountDownLatch(1);
        private final long warm;
        private final long records;
        private long seen;
        private OutputCollector collector;

        public Count(long warm, long records) {
            this.warm = warm;
            this.records = records;
        }

        @Override
        public void prepare(Map<String, Object> conf, TopologyContext context, OutputCollector collector) {
            this.collector = collector;
        }

        @Override
        public void execute(Tuple tuple) {
            if (seen == 0) {
                firstAt = System.nanoTime();
            }
            if (seen == warm) {
                fromAt = System.nanoTime();
            }
            if (++seen == records) {
                lastAt = System.nanoTime();
                ALL.countDown();
            }
            collector.ack(tuple);
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {}
    }

    private static KafkaSpout<byte[], byte[]> spout(String address, String topic, String group, int maxPoll, long commitMs) {
        return new KafkaSpout<>(
            new KafkaSpoutConfig.Builder<byte[], byte[]>(address, topic)
                .setProp(ConsumerConfig.KEY_DESERIALIZER_CLASS_CONFIG, ByteArrayDeserializer.class)
                .setProp(ConsumerConfig.VALUE_DESERIALIZER_CLASS_CONFIG, ByteArrayDeserializer.class)
                .setProp(ConsumerConfig.GROUP_ID_CONFIG, group)
                .setProp(ConsumerConfig.MAX_POLL_RECORDS_CONFIG, maxPoll)
                .setProcessingGuarantee(KafkaSpoutConfig.ProcessingGuarantee.AT_LEAST_ONCE)
                .setFirstPollOffsetStrategy(FirstPollOffsetStrategy.EARLIEST)
                .setOffsetCommitPeriodMs(commitMs)
                .setRecordTranslator(record -> new Values((Object) record.value()), new Fields("value"))
                .build());
    }

    /** The settings of Storm's own throughput topologies. */
    private static Config settings(int pending) {
        Config conf = new Config();
        conf.setNumAckers(1);
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

    private static long committed(Admin admin, String group) throws Exception {
        Map<?, OffsetAndMetadata> offsets = admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get();
        return offsets.values().stream().mapToLong(OffsetAndMetadata::offset).sum();
    }

    private static void awaitCommitted(String address, String group, long records) throws Exception {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", address);
        try (Admin admin = Admin.create(properties)) {
            long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(30);
            long done = committed(admin, group);
            while (done != records && System.nanoTime() < deadline) {
                Thread.sleep(100);
                done = committed(admin, group);
            }
            if (done != records) {
                throw new IllegalStateException(done + " records of " + records + " are committed");
            }
        }
    }

    public static void main(String[] args) throws Exception {
        try {
            run(args);
        } catch (Exception error) {
            error.printStackTrace();
            Runtime.getRuntime().halt(1);
        }
    }

    private static void run(String[] args) throws Exception {
        long warm = Long.parseLong(args[0]);
        int pending = Integer.parseInt(args[1]);
        int maxPoll = Integer.parseInt(args[2]);
        long commitMs = Long.parseLong(args[3]);
        String address = args[4];
        String topic = args[5];
        String group = args[6];
        long records = Long.parseLong(args[7]);
        double started = Double.parseDouble(args[8]);

        TopologyBuilder builder = new TopologyBuilder();
        builder.setSpout("records", spout(address, topic, group, maxPoll, commitMs), 1);
        builder.setBolt("null", new Count(warm, records), 1).localOrShuffleGrouping("records");
        new LocalCluster().submitTopology("peer", settings(pending), builder.createTopology());
        if (!Count.ALL.await(TIMEOUT_SECS, TimeUnit.SECONDS)) {
            throw new IllegalStateException("not all records came within " + TIMEOUT_SECS + " s");
        }
        awaitCommitted(address, group, records);

        long units = records - warm;
        double secs = (Count.lastAt - Count.fromAt) / NANOS;
        System.out.printf(
            Locale.ROOT,
            "{\"units\": %d, \"ns\": %.1f, \"per_second\": %.0f, \"start_secs\": %.2f, \"whole_secs\": %.2f, \"cold_ns\": %.1f}%n",
            units, secs * NANOS / units, units / secs, Count.firstAt / NANOS - started, Count.lastAt / NANOS - started,
            (double) (Count.lastAt - Count.firstAt) / records);
        System.out.flush();
        // Closing a LocalCluster takes longer than the measurement and can hang on its threads. The result is already printed.
        Runtime.getRuntime().halt(0);
    }
}
