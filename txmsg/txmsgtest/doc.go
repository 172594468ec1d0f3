// Package txmsgtest is the contract of txmsg.Broker as a suite, and a broker in
// memory that keeps it. Each case is one sentence of the contract.
package txmsgtest
