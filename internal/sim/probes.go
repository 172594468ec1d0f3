package sim

// Probes count how often something interesting happened. A simulation that
// never comes to a place proves nothing about it: see Expected.
type Probes map[string]int

func (p Probes) hit(name string) { p[name]++ }

// Add counts q's hits too.
func (p Probes) Add(q Probes) {
	for name, n := range q {
		p[name] += n
	}
}

// Expected are the places that a run of many seeds must have come to.
var Expected = []string{
	"acknowledgement lost",
	"acknowledgements forgotten",
	"another run of the server refused",
	"another system asked",
	"answer of a store lost",
	"attempt after the first",
	"batch rolled back",
	"broker knew the message id",
	"call of a store done late",
	"call of a store lost",
	"consumer control group",
	"consumer control key",
	"consumer dead letter beyond_dedup_window",
	"consumer dead letter handler_error",
	"consumer dead letter kills_process",
	"consumer dead letter out_of_sequence",
	"consumer dead letter panic",
	"consumer dead letter permanent",
	"consumer dead letter sequence_gap",
	"consumer dead letter undecodable",
	"consumer ended cleanly",
	"consumer note breaker closed",
	"consumer note breaker open",
	"consumer note group paused",
	"consumer note group resumed",
	"consumer note store down",
	"consumer note store up",
	"consumer note suspect one at a time",
	"database crashed",
	"dead letter discarded",
	"dead letter replayed",
	"deadlock of a producer",
	"delayed event done",
	"delivery answered with an error",
	"delivery withdrawn",
	"destination joined again",
	"destination reads for itself",
	"duplicate delivered",
	"effect key known",
	"event behind a failed one",
	"event beyond the dedup floor",
	"event delayed",
	"event done while another system was asked",
	"event killed the consumer",
	"events in hand written down",
	"event killed the relay",
	"event out of sequence",
	"event parked by a group",
	"event rejected",
	"event sent again",
	"event skipped",
	"foreign record",
	"gap in a sequence timed out",
	"gap in a sequence",
	"grace ended before a transaction",
	"handler overlooked that its transaction had ended",
	"handler unavailable",
	"hole in a checkpoint",
	"hole turned cold",
	"id given again after a restart",
	"ids of a block left unused",
	"item rolled back alone",
	"lane waits for those before it",
	"lanes began",
	"lanes changed",
	"late row done",
	"late row found",
	"leader died young",
	"leader resigned",
	"lease taken over",
	"left-over row taken over",
	"left-over row waits",
	"log row forgotten",
	"owner died without progress",
	"parked key drained",
	"parked row deleted by hand",
	"part of a batch got no answer",
	"members that died had events in hand",
	"partition assigned to another member",
	"partition lost",
	"partition taken over",
	"process died",
	"process went on after a stop",
	"publish arrived late",
	"record of a missing id locked",
	"record refused",
	"relay control key",
	"relay control relay",
	"relay control topic",
	"relay dead letter discarded",
	"relay dead letter invalid_event",
	"relay dead letter kills_process",
	"relay dead letter publish_refused",
	"relay dead letter replayed",
	"relay dead letter row_deleted",
	"relay dead letter",
	"relay ended cleanly",
	"retry succeeded",
	"row deleted by retention",
	"row of a cold hole that its lane has dealt with",
	"row of another lane seen",
	"row parked as suspect",
	"row parked",
	"rows handed over between lanes",
	"sent event listed again",
	"standby takes over a lane that is to end",
	"statement rolled back alone",
	"statement runs that may own a missing id",
	"statement waited for a lock",
	"store met a lock",
	"table made anew",
	"topic took nothing",
	"try written down among fewer than before",
	"try written down before it is made",
	"try written down for several together",
	"visible row lost in a crash",
	"work done apart after a conflict",
	"work of a former owner refused",
	"write of a former leader refused",
}

// ExpectedOfLists are the places that many seeds of RunFanned must have come to.
func ExpectedOfLists() []string {
	return []string{
		"delayed row left for another destination", "destination joined again", "event at the second broker", "event delayed", "late row left for another destination",
		"routes changed", "row deleted by retention", "row that goes to several destinations", "rows handed over between lanes",
	}
}

// ExpectedOfRoutes are the places that many seeds of RunRouted must have come to.
func ExpectedOfRoutes() []string {
	return []string{
		"destination joined again", "destination reads for itself", "event at the second broker", "event delayed", "late row done",
		"relay dead letter replayed", "routes changed", "row deleted by retention", "rows handed over between lanes",
	}
}
