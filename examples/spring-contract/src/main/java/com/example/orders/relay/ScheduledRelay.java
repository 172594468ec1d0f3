package com.example.orders.relay;

import com.example.orders.outbox.OutboxEvent;
import com.example.orders.outbox.OutboxRepository;
import java.time.LocalDateTime;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.context.annotation.Profile;
import org.springframework.scheduling.annotation.EnableScheduling;
import org.springframework.scheduling.annotation.Scheduled;
import org.springframework.stereotype.Component;

/**
 * The relay as it is often written. Its method has no transaction, so that a slow broker holds none open; the locks
 * that it asks for are therefore gone once its query has ended, and each save writes all columns of the row back.
 */
@Component
@EnableScheduling
@Profile("relay")
class ScheduledRelay {

    private static final Logger log = LoggerFactory.getLogger(ScheduledRelay.class);

    private final OutboxRepository outbox;
    private final Topic topic;
    private final int batch;
    private final int maxAttempts;

    ScheduledRelay(OutboxRepository outbox, Topic topic,
            @Value("${relay.batch}") int batch, @Value("${relay.max-attempts}") int maxAttempts) {
        this.outbox = outbox;
        this.topic = topic;
        this.batch = batch;
        this.maxAttempts = maxAttempts;
    }

    @Scheduled(fixedDelayString = "${relay.delay}")
    void publishDue() {
        for (OutboxEvent event : outbox.lockDue(LocalDateTime.now(), batch)) {
            try {
                topic.publish(event);
                event.sent();
            } catch (RuntimeException e) {
                log.warn("publish event {}", event.eventId(), e);
                event.failed(e, maxAttempts);
            }
            outbox.save(event);
        }
    }
}
