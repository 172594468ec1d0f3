package drill

// faultMeanings says for a person what each fault does.
var faultMeanings = map[string]string{
	FaultRelayKill:      "a relay is killed (SIGKILL)",
	FaultConsumerKill:   "a consumer is killed",
	FaultOrderKill:      "the order entry is killed while clients wait for its answer",
	FaultInventoryKill:  "the whole inventory service is killed at once",
	FaultBrokerStop:     "the broker ends, killed or asked to in turn, and comes back",
	FaultBrokerCut:      "all connections to the broker are cut, and new ones refused for a while",
	FaultLostAck:        "the broker stores events, and its acknowledgements are lost",
	FaultDuplicate:      "records of the broker's log are published again as new ones",
	FaultPause:          "a process is stopped for longer than its lease, a stand-in takes over, and it goes on as if nothing had happened",
	FaultPoison:         "orders come that nobody can handle before a person has repaired something, and a record that is no event",
	FaultProviderLost:   "the payment provider takes the money and its answers are lost",
	FaultProviderSlow:   "the payment provider answers late",
	FaultCarrierGarbage: "the carrier does its work and answers what nobody can read",
	FaultCarrierFail:    "the carrier does nothing and says that it failed",
	FaultCouponOutage:   "the coupon system hangs for a while, for everybody",
	FaultCouponStuck:    "the coupon system hangs for some customers until a person repairs",
	FaultOutsideKill:    "an outside system is killed",
	FaultBrokerNodeKill: "the broker's node that leads most is killed, and comes back when others lead in its place",
	FaultLeaderSwitch:   "the broker's node that leads most ends in order, others lead in its place, and it comes back",
	FaultBrokerPause:    "the broker's node that leads most is stopped for longer than all time-outs, and goes on as if nothing had happened",
}
