package com.example.orders.outbox;

import jakarta.persistence.Column;
import jakarta.persistence.Entity;
import jakarta.persistence.EnumType;
import jakarta.persistence.Enumerated;
import jakarta.persistence.GeneratedValue;
import jakarta.persistence.GenerationType;
import jakarta.persistence.Id;
import jakarta.persistence.Table;
import java.time.LocalDateTime;
import java.util.Map;
import org.hibernate.annotations.JdbcTypeCode;
import org.hibernate.type.SqlTypes;

/** An event that was committed with what it tells of, and is on its way or has been sent. */
@Entity
@Table(name = "t_outbox_event")
public class OutboxEvent {

    @Id
    @GeneratedValue(strategy = GenerationType.IDENTITY)
    private Long id;

    @Column(name = "event_id", nullable = false, length = 64, unique = true)
    private String eventId;

    @Column(name = "aggregate_type", nullable = false, length = 64)
    private String aggregateType;

    @Column(name = "aggregate_id", nullable = false, length = 64)
    private String aggregateId;

    @Column(name = "event_type", nullable = false, length = 64)
    private String eventType;

    @JdbcTypeCode(SqlTypes.JSON)
    @Column(nullable = false)
    private String payload;

    @JdbcTypeCode(SqlTypes.JSON)
    private Map<String, String> headers = Map.of("source", "order-service");

    @Enumerated(EnumType.STRING)
    @Column(nullable = false, length = 16)
    private OutboxStatus status = OutboxStatus.PENDING;

    @Column(name = "retry_count", nullable = false)
    private int retryCount;

    @Column(name = "next_retry_time", nullable = false)
    private LocalDateTime nextRetryTime = LocalDateTime.now();

    @Column(name = "last_error", columnDefinition = "text")
    private String lastError;

    @Column(name = "created_at", nullable = false)
    private LocalDateTime createdAt = nextRetryTime;

    @Column(name = "updated_at", nullable = false)
    private LocalDateTime updatedAt = nextRetryTime;

    protected OutboxEvent() {
    }

    OutboxEvent(EventEnvelope<?> event, String payload) {
        eventId = event.eventId();
        aggregateType = event.aggregateType();
        aggregateId = event.aggregateId();
        eventType = event.eventType();
        this.payload = payload;
    }

    public String eventId() {
        return eventId;
    }

    public String aggregateId() {
        return aggregateId;
    }

    public String payload() {
        return payload;
    }

    public void sent() {
        status = OutboxStatus.SENT;
        updatedAt = LocalDateTime.now();
    }

    /** The status stays PENDING until the attempts are used up. */
    public void failed(Exception cause, int maxAttempts) {
        retryCount++;
        lastError = cause.getMessage();
        updatedAt = LocalDateTime.now();
        nextRetryTime = updatedAt.plusSeconds(1L << Math.min(retryCount, 6));
        if (retryCount >= maxAttempts) {
            status = OutboxStatus.FAILED;
        }
    }
}
