package com.example.orders.consumer;

import com.example.orders.order.OrderService.OrderFact;
import com.example.orders.outbox.EventEnvelope;
import org.springframework.http.HttpStatus;
import org.springframework.web.bind.annotation.PostMapping;
import org.springframework.web.bind.annotation.RequestBody;
import org.springframework.web.bind.annotation.ResponseStatus;
import org.springframework.web.bind.annotation.RestController;

/** Takes messages over HTTP, as a listener takes them from a broker: 204 acknowledges. */
@RestController
class MessageController {

    private final ReservationConsumer consumer;

    MessageController(ReservationConsumer consumer) {
        this.consumer = consumer;
    }

    @PostMapping("/messages")
    @ResponseStatus(HttpStatus.NO_CONTENT)
    void receive(@RequestBody EventEnvelope<OrderFact> message) {
        consumer.consume(message);
    }
}
