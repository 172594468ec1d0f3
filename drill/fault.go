package drill

import (
	"fmt"
	"slices"
	"strings"
)

// Names of faults.
const (
	FaultRelayKill      = "relay-kill"      // SIGKILL of a relay
	FaultConsumerKill   = "consumer-kill"   // SIGKILL of a consumer
	FaultOrderKill      = "order-kill"      // SIGKILL of the order entry, while clients wait for its answer
	FaultInventoryKill  = "inventory-kill"  // SIGKILL of the whole inventory service at once
	FaultBrokerStop     = "broker-stop"     // the broker ends, by SIGKILL and SIGTERM in turn, and comes back
	FaultBrokerCut      = "broker-cut"      // all connections to the broker are reset, new ones refused for a while
	FaultLostAck        = "lost-ack"        // the broker stores events and its acknowledgements are lost
	FaultDuplicate      = "duplicate"       // records of the broker's log are published again as new ones
	FaultPause          = "pause"           // SIGSTOP past the lease while a stand-in takes over, then SIGCONT
	FaultPoison         = "poison"          // orders that can't be handled until a person repairs, and a foreign record
	FaultProviderLost   = "provider-lost"   // the payment provider does the work and its answers are lost
	FaultProviderSlow   = "provider-slow"   // the payment provider answers late
	FaultCarrierGarbage = "carrier-garbage" // the carrier does the work and answers what nobody can read
	FaultCarrierFail    = "carrier-fail"    // the carrier does nothing and says that it failed
	FaultCouponOutage   = "coupon-outage"   // the coupon system hangs for a while, for everybody
	FaultCouponStuck    = "coupon-stuck"    // the coupon system hangs for some customers until a person repairs
	FaultOutsideKill    = "outside-kill"    // SIGKILL of an outside system

	FaultBrokerNodeKill = "broker-node-kill" // SIGKILL of the broker's node that leads most, until others lead in its place
	FaultLeaderSwitch   = "leader-switch"    // the node that leads most ends in order, others lead in its place, and it comes back
	FaultBrokerPause    = "broker-pause"     // SIGSTOP of the node that leads most, past the time-outs, then SIGCONT
)

// FaultNames returns the names of all faults but those of a broker's nodes.
func FaultNames() []string {
	return []string{
		FaultRelayKill, FaultConsumerKill, FaultOrderKill, FaultInventoryKill, FaultBrokerStop,
		FaultBrokerCut, FaultLostAck, FaultDuplicate, FaultPause, FaultPoison,
		FaultProviderLost, FaultProviderSlow, FaultCarrierGarbage, FaultCarrierFail,
		FaultCouponOutage, FaultCouponStuck, FaultOutsideKill,
	}
}

// NodeFaultNames returns the names of faults of a broker that has several nodes,
// which System.Cluster breaks.
func NodeFaultNames() []string {
	return []string{FaultBrokerNodeKill, FaultLeaderSwitch, FaultBrokerPause}
}

// ParseFaults reads "all", which are those of FaultNames, "none", or names with
// commas between. The names come back in the order of FaultNames and
// NodeFaultNames, each once.
func ParseFaults(s string) ([]string, error) {
	switch s {
	case "all":
		return FaultNames(), nil
	case "none":
		return nil, nil
	}
	known := slices.Concat(FaultNames(), NodeFaultNames())
	asked := map[string]bool{}
	for name := range strings.SplitSeq(s, ",") {
		name = strings.TrimSpace(name)
		if name == "all" || name == "none" {
			return nil, fmt.Errorf("fault %q stands alone; else name some of %s", name, strings.Join(known, ", "))
		}
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("unknown fault %q; the faults are all, none, or some of %s", name, strings.Join(known, ", "))
		}
		asked[name] = true
	}
	return slices.DeleteFunc(known, func(name string) bool { return !asked[name] }), nil
}
