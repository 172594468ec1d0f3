package com.example.orders.order;

import java.math.BigDecimal;

/** The body of {@code POST /orders}. */
public record CreateOrder(String orderId, long userId, BigDecimal amount, String note) {
}
