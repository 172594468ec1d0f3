import java.nio.charset.StandardCharsets;
import java.util.TreeSet;
import org.springframework.amqp.core.MessageListener;
import org.springframework.amqp.core.QueueBuilder;
import org.springframework.amqp.rabbit.config.RetryInterceptorBuilder;
import org.springframework.amqp.rabbit.connection.CachingConnectionFactory;
import org.springframework.amqp.rabbit.core.RabbitAdmin;
import org.springframework.amqp.rabbit.core.RabbitTemplate;
import org.springframework.amqp.rabbit.listener.SimpleMessageListenerContainer;
import org.springframework.amqp.rabbit.retry.RepublishMessageRecoverer;

/**
 * A service that fails at every message until it comes back from a replay, and tells of those. It ends with its input.
 * FailingConsumer reject|republish URI QUEUE
 */
public class FailingConsumer {
  public static void main(String[] args) throws Exception {
    var connections = new CachingConnectionFactory(java.net.URI.create(args[1]));
    String queue = args[2];
    // It declares its queue at each start, as services do, and with the arguments that the ladder has given it.
    new RabbitAdmin(connections).declareQueue(QueueBuilder.durable(queue).quorum().deliveryLimit(1000)
        .withArgument("x-dead-letter-exchange", queue + ".retry").withArgument("x-dead-letter-strategy", "at-least-once").withArgument("x-overflow", "reject-publish").build());
    var container = new SimpleMessageListenerContainer(connections);
    container.setQueueNames(queue);
    if (args[0].equals("reject")) {
      container.setDefaultRequeueRejected(false);
    } else {
      container.setAdviceChain(RetryInterceptorBuilder.stateless().maxAttempts(2).backOffOptions(1, 1, 1)
          .recoverer(new RepublishMessageRecoverer(new RabbitTemplate(connections), "", queue + ".dead")).build());
    }
    container.setMessageListener((MessageListener) m -> {
      var p = m.getMessageProperties();
      Object back = p.getHeaders().get("settle-return-id");
      if (back == null) throw new IllegalStateException("no stock for " + p.getMessageId());
      System.out.println(String.join("\t", String.valueOf(p.getMessageId()), new String(m.getBody(), StandardCharsets.UTF_8), back.toString(),
          p.getReceivedRoutingKey(), String.join(" ", new TreeSet<>(p.getHeaders().keySet()))));
      System.out.flush();
    });
    container.start();
    while (System.in.read() >= 0) {}
    container.stop();
    connections.destroy();
  }
}
