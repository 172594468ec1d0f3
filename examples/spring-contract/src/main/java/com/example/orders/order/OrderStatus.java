package com.example.orders.order;

public enum OrderStatus {
    CREATED,
    AMENDED
}
