package com.example.orders.outbox;

import java.time.LocalDateTime;
import java.util.List;
import org.springframework.data.jpa.repository.JpaRepository;
import org.springframework.data.jpa.repository.Query;

public interface OutboxRepository extends JpaRepository<OutboxEvent, Long> {

    @Query(nativeQuery = true, value = """
            SELECT * FROM t_outbox_event
            WHERE status = 'PENDING' AND next_retry_time <= :now
            ORDER BY id LIMIT :limit FOR UPDATE SKIP LOCKED""")
    List<OutboxEvent> lockDue(LocalDateTime now, int limit);
}
