import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Java's clients, steered by lines on standard input. Each line gets one or more lines, the last of which begins with OK or ERROR.
 *
 * <p>begin ID; put TOPIC PARTITION KEY VALUE HEADERS; commit; abort; leave; read TOPIC ISOLATION. Bytes are "-" for null, else "+" and
 * base64. Headers are NAME:VALUE joined by commas, or ".". `leave` leaves the transaction open, and later puts are outside of it.
 */
public class JavaClient {
  private final String bootstrap;
  private final Map<String, KafkaProducer<byte[], byte[]>> producers = new HashMap<>();
  private String current = "";

  JavaClient(String bootstrap) {
    this.bootstrap = bootstrap;
  }

  public static void main(String[] arguments) throws Exception {
    JavaClient client = new JavaClient(arguments[0]);
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
    System.out.println("OK");
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      try {
        System.out.println("OK " + client.answer(line.split(" ")));
      } catch (Exception error) {
        System.out.println("ERROR " + error.toString().replace("\n", " "));
      }
    }
    Runtime.getRuntime().halt(0); // without an end of open transactions
  }

  private String answer(String[] words) throws Exception {
    switch (words[0]) {
      case "begin":
        current = words[1];
        producer().beginTransaction();
        return "";
      case "put":
        return String.valueOf(put(words));
      case "commit":
        producer().commitTransaction();
        current = "";
        return "";
      case "abort":
        producer().abortTransaction();
        current = "";
        return "";
      case "leave":
        current = "";
        return "";
      case "read":
        return String.valueOf(read(words[1], words[2]));
      default:
        throw new IllegalArgumentException(words[0]);
    }
  }

  private KafkaProducer<byte[], byte[]> producer() {
    return producers.computeIfAbsent(current, id -> {
      Properties options = new Properties();
      options.put("bootstrap.servers", bootstrap);
      options.put("key.serializer", ByteArraySerializer.class.getName());
      options.put("value.serializer", ByteArraySerializer.class.getName());
      if (!id.isEmpty()) {
        options.put("transactional.id", id);
      }
      KafkaProducer<byte[], byte[]> made = new KafkaProducer<>(options);
      if (!id.isEmpty()) {
        made.initTransactions();
      }
      return made;
    });
  }

  private long put(String[] words) throws Exception {
    ProducerRecord<byte[], byte[]> record =
        new ProducerRecord<>(words[1], Integer.parseInt(words[2]), bytes(words[3]), bytes(words[4]));
    if (!words[5].equals(".")) {
      for (String header : words[5].split(",")) {
        String[] parts = header.split(":");
        record.headers().add(new String(bytes(parts[0])), bytes(parts[1]));
      }
    }
    return producer().send(record).get().offset();
  }

  private int read(String topic, String isolation) {
    Properties options = new Properties();
    options.put("bootstrap.servers", bootstrap);
    options.put("isolation.level", isolation);
    options.put("auto.offset.reset", "earliest");
    options.put("enable.auto.commit", "false");
    options.put("key.deserializer", ByteArrayDeserializer.class.getName());
    options.put("value.deserializer", ByteArrayDeserializer.class.getName());
    int count = 0;
    try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(options)) {
      List<TopicPartition> partitions = new ArrayList<>();
      for (PartitionInfo one : consumer.partitionsFor(topic)) {
        partitions.add(new TopicPartition(topic, one.partition()));
      }
      consumer.assign(partitions);
      consumer.seekToBeginning(partitions);
      Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
      while (partitions.stream().anyMatch(one -> consumer.position(one) < ends.get(one))) {
        for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
          count++;
          System.out.println(record.partition() + " " + record.offset() + " " + text(record.key()) + " " + text(record.value()) + " "
              + headers(record));
        }
      }
    }
    return count;
  }

  private static String headers(ConsumerRecord<byte[], byte[]> record) {
    List<String> found = new ArrayList<>();
    for (Header header : record.headers()) {
      found.add(text(header.key().getBytes()) + ":" + text(header.value()));
    }
    return found.isEmpty() ? "." : found.stream().collect(Collectors.joining(","));
  }

  private static byte[] bytes(String word) {
    return word.equals("-") ? null : Base64.getDecoder().decode(word.substring(1));
  }

  private static String text(byte[] bytes) {
    return bytes == null ? "-" : "+" + Base64.getEncoder().encodeToString(bytes);
  }
}
