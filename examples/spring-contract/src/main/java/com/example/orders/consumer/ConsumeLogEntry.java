package com.example.orders.consumer;

import jakarta.persistence.Column;
import jakarta.persistence.Entity;
import jakarta.persistence.EnumType;
import jakarta.persistence.Enumerated;
import jakarta.persistence.GeneratedValue;
import jakarta.persistence.GenerationType;
import jakarta.persistence.Id;
import jakarta.persistence.Table;
import jakarta.persistence.UniqueConstraint;
import java.time.LocalDateTime;

/** What a group of consumers has done with a message. */
@Entity
@Table(name = "t_message_consume_log", uniqueConstraints = @UniqueConstraint(columnNames = {"consumer_group", "message_id"}))
public class ConsumeLogEntry {

    @Id
    @GeneratedValue(strategy = GenerationType.IDENTITY)
    private Long id;

    @Column(name = "consumer_group", nullable = false, length = 128)
    private String consumerGroup;

    @Column(name = "message_id", nullable = false, length = 64)
    private String messageId;

    @Column(name = "biz_key", length = 64)
    private String bizKey;

    @Enumerated(EnumType.STRING)
    @Column(nullable = false, length = 16)
    private ConsumeStatus status = ConsumeStatus.PROCESSING;

    @Column(name = "consumed_at", nullable = false)
    private LocalDateTime consumedAt = LocalDateTime.now();

    protected ConsumeLogEntry() {
    }

    ConsumeLogEntry(String consumerGroup, String messageId, String bizKey) {
        this.consumerGroup = consumerGroup;
        this.messageId = messageId;
        this.bizKey = bizKey;
    }

    boolean done() {
        return status == ConsumeStatus.SUCCESS;
    }

    void status(ConsumeStatus now) {
        status = now;
        consumedAt = LocalDateTime.now();
    }
}
