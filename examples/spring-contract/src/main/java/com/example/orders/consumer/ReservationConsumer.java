package com.example.orders.consumer;

import com.example.orders.order.OrderService.OrderFact;
import com.example.orders.outbox.EventEnvelope;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.stereotype.Service;
import org.springframework.transaction.support.TransactionTemplate;

/**
 * Reserves what was ordered. The log's row is committed as PROCESSING before the work, and as SUCCESS or FAILED after
 * it: a process that dies between leaves PROCESSING behind.
 */
@Service
class ReservationConsumer {

    private final ConsumeLogRepository log;
    private final JdbcTemplate jdbc;
    private final TransactionTemplate inTransaction;
    private final String group;

    ReservationConsumer(ConsumeLogRepository log, JdbcTemplate jdbc, TransactionTemplate inTransaction,
            @Value("${consumer.group}") String group) {
        this.log = log;
        this.jdbc = jdbc;
        this.inTransaction = inTransaction;
        this.group = group;
    }

    void consume(EventEnvelope<OrderFact> message) {
        ConsumeLogEntry entry = log.findByConsumerGroupAndMessageId(group, message.eventId())
                .orElseGet(() -> log.save(new ConsumeLogEntry(group, message.eventId(), message.bizKey())));
        if (entry.done()) {
            return;
        }
        try {
            inTransaction.executeWithoutResult(tx -> {
                reserve(message.payload());
                entry.status(ConsumeStatus.SUCCESS);
                log.save(entry);
            });
        } catch (RuntimeException e) {
            entry.status(ConsumeStatus.FAILED);
            log.save(entry);
            throw e;
        }
    }

    private void reserve(OrderFact order) {
        if (order.amount().signum() <= 0) {
            throw new IllegalArgumentException("order " + order.orderId() + " reserves nothing");
        }
        jdbc.update("INSERT INTO t_reservation (order_id, amount) VALUES (?, ?)", order.orderId(), order.amount());
    }
}
