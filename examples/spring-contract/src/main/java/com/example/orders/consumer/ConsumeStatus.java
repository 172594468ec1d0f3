package com.example.orders.consumer;

public enum ConsumeStatus {
    PROCESSING,
    SUCCESS,
    FAILED
}
