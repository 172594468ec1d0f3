package com.example.orders.order;

import com.example.orders.order.OrderService.OrderFact;
import com.example.orders.outbox.EventEnvelope;
import org.springframework.http.HttpStatus;
import org.springframework.web.bind.annotation.PathVariable;
import org.springframework.web.bind.annotation.PostMapping;
import org.springframework.web.bind.annotation.RequestBody;
import org.springframework.web.bind.annotation.ResponseStatus;
import org.springframework.web.bind.annotation.RestController;

/** Answers with the event that was committed with the order. */
@RestController
class OrderController {

    private final OrderService orders;

    OrderController(OrderService orders) {
        this.orders = orders;
    }

    @PostMapping("/orders")
    @ResponseStatus(HttpStatus.CREATED)
    EventEnvelope<OrderFact> create(@RequestBody CreateOrder request) {
        return orders.create(request);
    }

    @PostMapping("/orders/{orderId}/amendments")
    EventEnvelope<OrderFact> amend(@PathVariable String orderId, @RequestBody AmendOrder request) {
        return orders.amend(orderId, request);
    }
}
