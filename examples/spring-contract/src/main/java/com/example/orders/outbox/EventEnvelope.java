package com.example.orders.outbox;

import java.time.Instant;
import java.util.UUID;

/** The message as others read it: the payload column holds all of it. */
public record EventEnvelope<T>(
        String eventId,
        String eventType,
        String aggregateType,
        String aggregateId,
        String bizKey,
        Instant occurredAt,
        String traceId,
        int version,
        T payload) {

    public static <T> EventEnvelope<T> of(String eventType, String aggregateType, String aggregateId, T payload) {
        return new EventEnvelope<>(
                UUID.randomUUID().toString(), eventType, aggregateType, aggregateId, aggregateId,
                Instant.now(), UUID.randomUUID().toString(), 1, payload);
    }
}
