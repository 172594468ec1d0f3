package com.example.orders.order;

import jakarta.persistence.LockModeType;
import java.util.Optional;
import org.springframework.data.jpa.repository.JpaRepository;
import org.springframework.data.jpa.repository.Lock;

public interface OrderRepository extends JpaRepository<Order, Long> {

    /** The order's row is locked, so that the events of one order are written one after the other. */
    @Lock(LockModeType.PESSIMISTIC_WRITE)
    Optional<Order> findByOrderId(String orderId);
}
