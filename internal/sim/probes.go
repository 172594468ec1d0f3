package sim

import (
	"maps"
	"slices"
)

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

// Names returns the probes that were hit, sorted.
func (p Probes) Names() []string { return slices.Sorted(maps.Keys(p)) }

// Expected are the places that a run of many seeds must have come to.
var Expected = []string{
	"acknowledgement lost",
	"acknowledgements forgotten",
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
	"event killed the consumer",
	"event killed the relay",
	"event out of sequence",
	"event parked by a group",
	"event rejected",
	"event sent again",
	"event skipped",
	"foreign record",
	"gap in a sequence",
	"gap in a sequence timed out",
	"grace ended before a transaction",
	"handler unavailable",
	"hole in a checkpoint",
	"hole turned cold",
	"item rolled back alone",
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
	"partition assigned to another member",
	"partition lost",
	"partition taken over",
	"process died",
	"process went on after a stop",
	"publish arrived late",
	"record refused",
	"relay control key",
	"relay control relay",
	"relay control topic",
	"relay dead letter",
	"relay dead letter discarded",
	"relay dead letter invalid_event",
	"relay dead letter kills_process",
	"relay dead letter publish_refused",
	"relay dead letter replayed",
	"relay dead letter row_deleted",
	"relay ended cleanly",
	"retry succeeded",
	"row deleted by retention",
	"row parked",
	"row parked as suspect",
	"table made anew",
	"topic took nothing",
	"try written down before it is made",
	"visible row lost in a crash",
	"work of a former owner refused",
	"write of a former leader refused",
}
