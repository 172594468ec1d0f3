import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.SerializationException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.kafka.annotation.EnableKafka;
import org.springframework.kafka.annotation.EnableKafkaRetryTopic;
import org.springframework.kafka.annotation.KafkaListener;
import org.springframework.kafka.annotation.RetryableTopic;
import org.springframework.kafka.config.ConcurrentKafkaListenerContainerFactory;
import org.springframework.kafka.core.ConsumerFactory;
import org.springframework.kafka.core.DefaultKafkaConsumerFactory;
import org.springframework.kafka.core.DefaultKafkaProducerFactory;
import org.springframework.kafka.core.KafkaOperations;
import org.springframework.kafka.core.KafkaTemplate;
import org.springframework.kafka.listener.ContainerProperties;
import org.springframework.kafka.listener.DeadLetterPublishingRecoverer;
import org.springframework.kafka.listener.DefaultErrorHandler;
import org.springframework.kafka.listener.KafkaMessageListenerContainer;
import org.springframework.kafka.listener.MessageListener;
import org.springframework.kafka.retrytopic.TopicSuffixingStrategy;
import org.springframework.kafka.support.serializer.ErrorHandlingDeserializer;
import org.springframework.retry.annotation.Backoff;
import org.springframework.scheduling.TaskScheduler;
import org.springframework.scheduling.concurrent.ThreadPoolTaskScheduler;
import org.springframework.util.backoff.FixedBackOff;

/**
 * A service that fails at every record until it comes back from a replay, and tells of those. It ends with its input.
 * FailingConsumer letters|retry BOOTSTRAP TOPIC GROUP
 */
public class FailingConsumer {
  static String bootstrap, topic, group;

  public static void main(String[] args) throws Exception {
    bootstrap = args[1];
    topic = args[2];
    group = args[3];
    Runnable stop;
    if (args[0].equals("letters")) {
      var container = new KafkaMessageListenerContainer<>(consumers(), properties());
      container.setCommonErrorHandler(new DefaultErrorHandler(
          new DeadLetterPublishingRecoverer(templates(), (r, e) -> new TopicPartition(r.topic() + "-" + group + "-dlt", r.partition())), new FixedBackOff(0, 1)));
      container.start();
      stop = container::stop;
    } else {
      System.setProperty("topic", topic);
      System.setProperty("group", group);
      var context = new AnnotationConfigApplicationContext(Retrying.class);
      stop = context::close;
    }
    while (System.in.read() >= 0) {}
    stop.run();
  }

  static void work(ConsumerRecord<String, String> r) {
    Header back = r.headers().lastHeader("settle-return-id");
    if (back == null) throw new IllegalStateException("no stock for " + r.key());
    StringBuilder names = new StringBuilder();
    for (Header h : r.headers()) names.append(h.key()).append(' ');
    System.out.println(String.join("\t", r.topic(), String.valueOf(r.partition()), String.valueOf(r.key()), String.valueOf(r.value()),
        new String(back.value(), StandardCharsets.UTF_8), names.toString().trim()));
    System.out.flush();
  }

  /** Strict can't read what begins with the byte 0xff. */
  public static class Strict extends StringDeserializer {
    @Override public String deserialize(String topic, byte[] data) {
      if (data != null && data.length > 0 && data[0] == -1) throw new SerializationException("not UTF-8");
      return super.deserialize(topic, data);
    }
  }

  static ConsumerFactory<String, String> consumers() {
    return new DefaultKafkaConsumerFactory<>(
        Map.of(ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap, ConsumerConfig.GROUP_ID_CONFIG, group, ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest"),
        new StringDeserializer(), new ErrorHandlingDeserializer<>(new Strict()));
  }

  static ContainerProperties properties() {
    var p = new ContainerProperties(topic);
    p.setMessageListener((MessageListener<String, String>) FailingConsumer::work);
    return p;
  }

  static Map<Class<?>, KafkaOperations<?, ?>> templates() {
    var all = new LinkedHashMap<Class<?>, KafkaOperations<?, ?>>();
    Map<String, Object> config = Map.of(ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap);
    all.put(byte[].class, new KafkaTemplate<>(new DefaultKafkaProducerFactory<>(config, new StringSerializer(), new ByteArraySerializer())));
    all.put(String.class, new KafkaTemplate<>(new DefaultKafkaProducerFactory<>(config, new StringSerializer(), new StringSerializer())));
    return all;
  }

  /** Retrying climbs the ladder that Settle declares, by its names. */
  @Configuration(proxyBeanMethods = false)
  @EnableKafka
  @EnableKafkaRetryTopic
  public static class Retrying {
    @Bean ConcurrentKafkaListenerContainerFactory<String, String> kafkaListenerContainerFactory() {
      var factory = new ConcurrentKafkaListenerContainerFactory<String, String>();
      factory.setConsumerFactory(consumers());
      return factory;
    }

    @Bean KafkaOperations<?, ?> defaultRetryTopicKafkaTemplate() { return templates().get(String.class); }

    @Bean TaskScheduler scheduler() { return new ThreadPoolTaskScheduler(); }

    @RetryableTopic(attempts = "3", backoff = @Backoff(delay = 500, multiplier = 2), autoCreateTopics = "false",
        topicSuffixingStrategy = TopicSuffixingStrategy.SUFFIX_WITH_DELAY_VALUE, retryTopicSuffix = "-${group}-retry", dltTopicSuffix = "-${group}-dlt")
    @KafkaListener(id = "${group}", topics = "${topic}")
    public void receive(ConsumerRecord<String, String> r) { work(r); }
  }
}
