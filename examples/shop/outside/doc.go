// Package outside holds the systems that belong to others: a payment provider,
// a coupon system and a carrier. Each is a small HTTP server (Run) with a
// ledger of its own, a SQLite file with a row for each idempotency key that is
// on disk before the answer goes out. The same key with the same body gets the
// same answer and no second effect, or 409 once the effect was undone; with
// another body it is refused (422). An
// effect that is asked for twice under different keys takes place twice: the
// ledger shows it as a second row of the order, nothing hides it.
//
// A server can be told to misbehave (Misbehaviour): to be late, to fail, to
// hang, to do the work and lose the answer, to answer with garbage, to be away.
//
// Provider, Coupons and Carrier are the clients. Each call goes out once, under
// a key made of the effect and the order, so that it has one effect however
// often it is made. Its outcome is one of these:
//
//	what happened                                        the call returns
//	---------------------------------------------------  ------------------------------------------------
//	2xx with a body that makes sense                     its result
//	402, or 409 for a payment                            the refusal, no error: the provider said no
//	the breaker is open, no address, connection refused  settle.Unavailable: nothing was tried
//	404, 405, 429, 503                                   settle.Unavailable: nothing was done
//	time-out, connection broken, 5xx, any other status   an error: the outcome is not known, ask again
//	2xx with bytes that make no sense                    an error: the outcome is not known, ask again
//	409 elsewhere (barred), other 4xx                    settle.Permanent: asking again gets the same
//	the caller's context has ended                       its error
//
// The breaker counts failures in a row: everything but results and refusals,
// the permanent ones among them.
package outside
