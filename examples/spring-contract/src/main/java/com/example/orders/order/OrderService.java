package com.example.orders.order;

import com.example.orders.outbox.EventEnvelope;
import com.example.orders.outbox.Outbox;
import java.math.BigDecimal;
import java.util.NoSuchElementException;
import org.springframework.stereotype.Service;
import org.springframework.transaction.annotation.Transactional;

/** Commits each change of an order together with the event that tells of it. */
@Service
public class OrderService {

    private final OrderRepository orders;
    private final Outbox outbox;

    OrderService(OrderRepository orders, Outbox outbox) {
        this.orders = orders;
        this.outbox = outbox;
    }

    @Transactional
    public EventEnvelope<OrderFact> create(CreateOrder request) {
        Order order = orders.save(new Order(request.orderId(), request.userId(), request.amount()));
        return publish("order.created", order, request.note());
    }

    @Transactional
    public EventEnvelope<OrderFact> amend(String orderId, AmendOrder request) {
        Order order = orders.findByOrderId(orderId).orElseThrow(() -> new NoSuchElementException("there is no order " + orderId));
        order.amend(request.amount());
        return publish("order.amended", order, null);
    }

    private EventEnvelope<OrderFact> publish(String type, Order order, String note) {
        var fact = new OrderFact(order.orderId(), order.userId(), order.amount(), note);
        var event = EventEnvelope.of(type, "Order", order.orderId(), fact);
        outbox.append(event);
        return event;
    }

    /** What the events of an order say of it. */
    public record OrderFact(String orderId, long userId, BigDecimal amount, String note) {
    }
}
