// Package springcontract holds Settle to what it promises a classic Spring Boot
// service: that it takes over the relaying of the service's outbox table as it
// stands. The service is in src: JPA entities, orders and their events in one
// transaction, a scheduled relay (profile relay), ids given out fifty at a time
// (profile pooled), a consumer with its log. It knows nothing of Settle. The
// tests build it with the script build and run it as a process, beside settle
// serve, on a database of its own; they run in scripts/test all.
package springcontract
