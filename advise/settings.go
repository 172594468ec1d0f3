package advise

import "time"

// settings are all that may be proposed; each stands by itself.
var settings = []struct {
	when func(Case, Advice) bool
	Setting
}{
	{outboxOf, Setting{"sources.NAME.durability, broker_durability", "strict (the default)", "nothing is relayed from or to what may lose what it has acknowledged"}},
	{outboxOf, Setting{"sources.NAME.relay.keep_for", "168h", "what was sent stays a week, to be found and sent again; by default it stays for ever"}},
	{func(c Case, a Advice) bool { return outboxOf(c, a) && a.Database != SQLite && c.Team == TeamPlatform }, Setting{"settle serve", "two processes on two machines", "one leads, the other takes over within relay.lease_ttl"}},
	{func(c Case, a Advice) bool { return outboxOf(c, a) && a.Database == SQLite }, Setting{"settle serve", "one process, beside the file", "a file has one machine; what SQLite acknowledged is safe from a crash, not from the loss of the disk"}},
	{func(c Case, a Advice) bool { return outboxOf(c, a) && a.Database != SQLite && c.Rate > muchForOneRelay }, Setting{"settle outbox lanes", "4", "several relays share the table by key; more than one leads at a time"}},
	{func(c Case, a Advice) bool {
		return outboxOf(c, a) && c.Delay < 25*time.Millisecond && a.Database == MySQL
	}, Setting{"sources.NAME.relay.max_idle", "2ms", "MySQL tells nobody of a commit: the relay looks, and the wait between two looks is part of the delay"}},
	{func(c Case, a Advice) bool { return outboxOf(c, a) && c.Order == OrderNone }, Setting{"sources.NAME.relay.pass", "true", "where nothing has to come in order, a dead letter need not hold up the events of its key"}},
	{func(c Case, a Advice) bool { return a.Scheme == TxMsg }, Setting{"transactionTimeOut (broker)", "longer than the longest local transaction", "the broker asks about whatever takes longer, and answers cost a look at the database each"}},
	{func(c Case, a Advice) bool { return a.Scheme == TxMsg }, Setting{"transactionOpBatchInterval (broker)", "well below transactionTimeOut", "otherwise transactions that have ended are asked about again and again"}},
	{func(c Case, a Advice) bool { return a.Scheme == Direct }, Setting{"settle serve", "for the database of the service", "what could not be sent stands in the outbox, and without a relay it stays there"}},
	{func(c Case, a Advice) bool { return a.Scheme == Direct }, Setting{"a reconciliation", "by what the consumer should know", "it is the only thing that finds an event which died with its process"}},
	{func(_ Case, a Advice) bool { return a.Broker == Kafka }, Setting{"topic", "replication.factor=3, min.insync.replicas=2, unclean.leader.election.enable=false", "an acknowledgement is on two machines, and no replica without it can lead"}},
	{func(_ Case, a Advice) bool { return a.Broker == RabbitMQ }, Setting{"cluster", "three nodes; quorum queues (which Settle declares)", "an acknowledgement is on two of three"}},
	{func(c Case, a Advice) bool { return a.Broker == RabbitMQ && c.Rate > muchForRabbitMQ }, Setting{"RabbitMQ", "measure before you decide", "a queue takes some 20,000 events a second, and one key some 2,000, since the next waits for the confirm"}},
	{func(_ Case, a Advice) bool { return a.Broker == RocketMQ }, Setting{"broker", "flushDiskType=SYNC_FLUSH, brokerRole=SYNC_MASTER, inSyncReplicas=2, autoCreateTopicEnable=false", "RocketMQ acknowledges from the memory of one process until it is told otherwise"}},
	{func(_ Case, a Advice) bool { return a.Broker == NATS }, Setting{"JetStream", "three servers, sync_interval: always", "streams get three copies; without it an acknowledgement is on the disk up to two minutes later"}},
}

func outboxOf(_ Case, a Advice) bool { return a.Scheme == Outbox }

// losses are what can be lost or late in spite of all.
var losses = []struct {
	when func(Case, Advice) bool
	says string
}{
	{outboxOf, "nothing that was committed, as long as database and broker keep what they acknowledge; an event comes twice when an acknowledgement is lost, and its consumer drops the copy"},
	{func(_ Case, a Advice) bool { return a.Scheme == TxMsg }, "nothing that was committed, as long as database and broker keep what they acknowledge; an event comes late by the broker's time-out when its commit was lost, and may come twice"},
	{func(_ Case, a Advice) bool { return a.Scheme == TxMsg }, "orders: while the broker is away the business is refused"},
	{func(_ Case, a Advice) bool { return a.Scheme == Direct }, "an event whose process dies between the commit and the send, and one that can't be sent while the database can't be written either"},
	{func(_ Case, a Advice) bool { return a.Broker == Embedded }, "with the machine's disk: what is on it, facts and events alike"},
}
