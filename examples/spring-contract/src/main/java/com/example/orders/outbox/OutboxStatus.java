package com.example.orders.outbox;

public enum OutboxStatus {
    PENDING,
    RETRY,
    SENT,
    FAILED
}
