package com.example.orders.relay;

import com.example.orders.outbox.OutboxEvent;
import org.springframework.context.annotation.Profile;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.stereotype.Component;
import org.springframework.transaction.annotation.Propagation;
import org.springframework.transaction.annotation.Transactional;

/** A table that records what was published, in its order, in the place of a broker. */
@Component
@Profile("relay")
class RecordingTopic implements Topic {

    private final JdbcTemplate jdbc;

    RecordingTopic(JdbcTemplate jdbc) {
        this.jdbc = jdbc;
    }

    /** Gives up after three seconds, as a client waits for its broker. */
    @Override
    @Transactional(propagation = Propagation.REQUIRES_NEW, timeout = 3)
    public void publish(OutboxEvent event) {
        jdbc.update("INSERT INTO t_sent_by_spring (event_id, message_key, value) VALUES (?, ?, ?)",
                event.eventId(), event.aggregateId(), event.payload());
    }
}
