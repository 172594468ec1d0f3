// Package dial turns URLs into drivers. It is the only table that names every
// broker and database there is; everything else is given what it works on.
//
//	brokers    nats://TOKEN@host:port,host:port   JetStream
//	           kafka://user:password@host:port,host:port
//	                                    Kafka; ?tls=true, tls_ca=/path and
//	                                    sasl=scram-sha-512 say how
//	           memory:                  inside the process, new with each call
//	databases  sqlite:///abs/path.db    created when missing
//	           postgres://user:password@host:port/name?search_path=schema
//	                                    a schema is one service's; without
//	                                    search_path it is the role's first one.
//	                                    Other options are PostgreSQL's own,
//	                                    such as sslmode=verify-full and
//	                                    sslrootcert=/path
//	           mysql://user:password@host:port/name
//	                                    a database is one service's, of MySQL
//	                                    or MariaDB (mariadb:// is the same);
//	                                    ?tls=true, with tls_ca=/path, encrypts
package dial
