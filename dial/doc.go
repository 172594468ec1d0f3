// Package dial turns URLs into drivers. It is the only table that names every
// broker and database there is; everything else is given what it works on.
//
//	brokers    nats://TOKEN@host:port   JetStream
//	           memory:                  inside the process, new with each call
//	databases  sqlite:///abs/path.db    created when missing
package dial
