package com.example.orders.relay;

import com.example.orders.outbox.OutboxEvent;

/** Where events are published; a broker's client in a service that has one. */
interface Topic {

    void publish(OutboxEvent event);
}
