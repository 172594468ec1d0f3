import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.MessageQueueSelector;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** What a program in Java does with events: it sends some, reads some, or gives some up. */
public class Interop {
    public static void main(String[] args) throws Exception {
        System.setProperty("user.home", args[args.length - 1]); // where the client writes its log
        switch (args[0]) {
            case "produce" -> produce(args[1], args[2], Integer.parseInt(args[3]));
            case "consume" -> consume(args[1], args[2], args[3], Integer.parseInt(args[4]));
            case "fail" -> fail(args[1], args[2], args[3], Integer.parseInt(args[4]));
            default -> throw new IllegalArgumentException(args[0]);
        }
    }

    /** The queue that Settle puts a key into, of the topic's queues in their order: FNV-1a of the key's bytes. */
    static final MessageQueueSelector SETTLE = (List<MessageQueue> queues, Message m, Object key) -> {
        int hash = 0x811c9dc5;
        for (byte b : ((String) key).getBytes(StandardCharsets.UTF_8)) {
            hash = (hash ^ (b & 0xff)) * 0x01000193;
        }
        return queues.get(Integer.remainderUnsigned(hash, queues.size()));
    };

    static void produce(String names, String topic, int n) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("java-producer");
        producer.setNamesrvAddr(names);
        producer.start();
        for (int i = 0; i < n; i++) {
            String key = (i % 2 == 1 ? "订单-" : "order-") + i;
            // A large one is compressed by the client.
            String body = "{\"eventId\":\"java-" + i + "\",\"eventType\":\"order.created\",\"aggregateType\":\"order\",\"aggregateId\":\"" + key
                + "\",\"bizKey\":\"" + key + "\",\"occurredAt\":\"2026-01-02T03:04:05Z\",\"payload\":{\"n\":" + i + ",\"pad\":\"" + "x".repeat(i % 10 == 0 ? 8000 : 10) + "\"}}";
            Message m = new Message(topic, "order.created", "java-" + i, body.getBytes(StandardCharsets.UTF_8));
            m.putUserProperty("traceparent", "trace-" + i);
            m.putUserProperty("__SHARDINGKEY", key);
            SendResult sent = producer.send(m, SETTLE, key);
            System.out.println(sent.getMessageQueue().getBrokerName() + "/" + sent.getMessageQueue().getQueueId() + "\t" + sent.getQueueOffset());
        }
        producer.shutdown();
    }

    static DefaultMQPushConsumer consumer(String names, String topic, String group) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(names);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        return consumer;
    }

    /** Prints n messages of the group and ends. */
    static void consume(String names, String topic, String group, int n) throws Exception {
        DefaultMQPushConsumer consumer = consumer(names, topic, group);
        CountDownLatch left = new CountDownLatch(n);
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt m : messages) {
                print(m);
                left.countDown();
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        left.await();
        System.out.println("done");
        consumer.shutdown();
    }

    /** Fails with every message but one that has come back by a return, until its input ends. */
    static void fail(String names, String topic, String group, int retries) throws Exception {
        DefaultMQPushConsumer consumer = consumer(names, topic, group);
        consumer.setMaxReconsumeTimes(retries);
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            context.setDelayLevelWhenNextConsume(1);
            print(messages.get(0));
            if (messages.get(0).getUserProperty("settle-return-id") == null) {
                return ConsumeConcurrentlyStatus.RECONSUME_LATER;
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        while (System.in.read() >= 0) {
        }
        consumer.shutdown();
    }

    static synchronized void print(MessageExt m) {
        System.out.println(String.join("\t", m.getTopic(), m.getBrokerName() + "/" + m.getQueueId(), String.valueOf(m.getQueueOffset()), String.valueOf(m.getReconsumeTimes()),
            String.valueOf(m.getKeys()), String.valueOf(m.getTags()), String.valueOf(m.getProperty("__SHARDINGKEY")), String.valueOf(m.getUserProperty("settle-return-id")),
            new String(m.getBody(), StandardCharsets.UTF_8)));
        System.out.flush();
    }
}
