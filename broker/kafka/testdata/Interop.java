import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** A producer and a consumer as a service in Java has them, with the clients' defaults. */
public class Interop {
  public static void main(String[] args) throws Exception {
    Properties p = new Properties();
    p.put("bootstrap.servers", args[1]);
    if (args[0].equals("produce")) {
      produce(p, args[2], Integer.parseInt(args[3]));
    } else {
      consume(p, args[2], Integer.parseInt(args[3]));
    }
  }

  static String key(int i) {
    return (i % 2 == 0 ? "order-" : "订单-") + i;
  }

  /** Sends n events and prints the partition of each. */
  static void produce(Properties p, String topic, int n) throws Exception {
    List<Future<RecordMetadata>> sent = new ArrayList<>();
    try (KafkaProducer<String, String> producer = new KafkaProducer<>(p, new StringSerializer(), new StringSerializer())) {
      for (int i = 0; i < n; i++) {
        String value = "{\"eventId\":\"java-" + i + "\",\"eventType\":\"FromJava\",\"aggregateId\":\"" + key(i) + "\",\"payload\":{\"n\":" + i + "}}";
        ProducerRecord<String, String> r = new ProducerRecord<>(topic, key(i), value);
        r.headers().add("traceparent", ("trace-" + i).getBytes(StandardCharsets.UTF_8));
        sent.add(producer.send(r));
      }
      StringBuilder out = new StringBuilder();
      for (Future<RecordMetadata> f : sent) {
        out.append(f.get().partition()).append('\n');
      }
      System.out.print(out);
    }
  }

  /** Reads n records from the beginning and prints those of Settle. */
  static void consume(Properties p, String topic, int n) {
    p.put("group.id", "java-" + topic);
    p.put("auto.offset.reset", "earliest");
    p.put("enable.auto.commit", "false");
    StringBuilder out = new StringBuilder();
    try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(p, new StringDeserializer(), new StringDeserializer())) {
      consumer.subscribe(List.of(topic));
      for (int seen = 0; seen < n; ) {
        for (ConsumerRecord<String, String> r : consumer.poll(Duration.ofSeconds(1))) {
          seen++;
          Header id = r.headers().lastHeader("settle-event-id");
          if (id != null) {
            out.append(new String(id.value(), StandardCharsets.UTF_8)).append('\t').append(r.key()).append('\t').append(r.partition()).append('\t')
                .append(r.offset()).append('\t').append(r.value()).append('\n');
          }
        }
        consumer.commitSync();
      }
    }
    System.out.write(out.toString().getBytes(StandardCharsets.UTF_8), 0, out.toString().getBytes(StandardCharsets.UTF_8).length);
    System.out.flush();
  }
}
