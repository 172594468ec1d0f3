package com.example.orders.order;

import java.math.BigDecimal;

/** The body of {@code POST /orders/{orderId}/amendments}. */
public record AmendOrder(BigDecimal amount) {
}
