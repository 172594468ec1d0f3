package com.example.orders.outbox;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import org.springframework.stereotype.Component;
import org.springframework.transaction.annotation.Propagation;
import org.springframework.transaction.annotation.Transactional;

/** Stores events in the transaction of what they tell of. */
@Component
public class Outbox {

    private final OutboxRepository events;
    private final ObjectMapper json;

    Outbox(OutboxRepository events, ObjectMapper json) {
        this.events = events;
        this.json = json;
    }

    @Transactional(propagation = Propagation.MANDATORY)
    public void append(EventEnvelope<?> event) {
        try {
            events.save(new OutboxEvent(event, json.writeValueAsString(event)));
        } catch (JsonProcessingException e) {
            throw new IllegalArgumentException("event " + event.eventId() + " can't be written as JSON", e);
        }
    }
}
