package com.example.orders.consumer;

import java.util.Optional;
import org.springframework.data.jpa.repository.JpaRepository;

public interface ConsumeLogRepository extends JpaRepository<ConsumeLogEntry, Long> {

    Optional<ConsumeLogEntry> findByConsumerGroupAndMessageId(String consumerGroup, String messageId);
}
