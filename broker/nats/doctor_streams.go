package nats

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/settlemq/settle/doctor"
)

func (x *examination) streamChecks() []check {
	return []check{
		{"topics", "what is looked at below; an event to a topic that is not there waits until it is", x.seen},
		{"stream_copies", "an acknowledged event lives as long as one of its copies does", x.copies},
		{"stream_leader", "a topic without a leader is not written and not read", x.led},
		{"stream_copies_now", "a copy that is behind is none when it is needed", x.copiesNow},
		{"stream_storage", "what is in memory, or on the disk some time later, is gone with the server", x.stored},
		{"stream_settings", "a topic whose stream is made otherwise is not used", x.asMade},
		{"stream_room", "a full topic refuses new events", x.room},
		{"stream_keep_for", "what is older is gone, read or not: a consumer that was away for longer has lost it, and it can't be replayed", x.kept},
		{"duplicate_window", "an event that is sent again later than that, because its answer was lost, is in the topic twice; consumers of Settle's know it all the same", x.window},
	}
}

func (x *examination) seen() doctor.Diagnosis {
	var names []string
	for _, s := range x.streams {
		names = append(names, s.Config.Name)
	}
	switch {
	case len(x.missing) > 0:
		return doctor.Diagnose(doctor.Warn, "not there: "+doctor.Enumerated(x.missing), "settle serve makes them when it starts, or when they are first used")
	case len(names) == 0:
		return doctor.Diagnose(doctor.Warn, "no stream was made for Settle, or none that this account may see", "name topics with --topic; or log in as the account that publishes")
	}
	return doctor.Sound("%s", doctor.Enumerated(names))
}

// each judges stream by stream.
func (x *examination) each(good string, judge func(s *jetstream.StreamInfo) doctor.Diagnosis) doctor.Diagnosis {
	if len(x.streams) == 0 {
		return doctor.Sound("there is no topic to look at")
	}
	var p doctor.Problems
	for _, s := range x.streams {
		if one := judge(s); one.Verdict != "" {
			p.Add(one.Verdict, s.Config.Name, one.Found, one.Fix)
		}
	}
	return p.Diagnosis("%s", good)
}

func edit(s *jetstream.StreamInfo, option string) string {
	return "nats stream edit " + s.Config.Name + " " + option
}

func (x *examination) copies() doctor.Diagnosis {
	return x.each("as many as there should be", func(s *jetstream.StreamInfo) doctor.Diagnosis {
		n := s.Config.Replicas
		switch {
		case x.cluster == "":
			return doctor.Diagnosis{} // one server can have one; servers says so
		case n == 1 && x.size() >= 3:
			return doctor.Diagnose(doctor.Bad, "one copy, which dies with its server", edit(s, "--replicas 3"))
		case n == 1:
			return doctor.Diagnose(doctor.Bad, "one copy, which dies with its server", "run three servers, then "+edit(s, "--replicas 3"))
		case n%2 == 0:
			return doctor.Diagnose(doctor.Warn, strconv.Itoa(n)+" copies: while one is away there is no majority, or none more than with one fewer", edit(s, "--replicas "+strconv.Itoa(n+1)))
		}
		return doctor.Diagnosis{}
	})
}

func (x *examination) led() doctor.Diagnosis {
	return x.each("every topic has one", func(s *jetstream.StreamInfo) doctor.Diagnosis {
		if s.Cluster != nil && s.Cluster.Leader == "" {
			return doctor.Diagnose(doctor.Bad, "no leader", "start the servers that have its copies")
		}
		return doctor.Diagnosis{}
	})
}

func (x *examination) copiesNow() doctor.Diagnosis {
	return x.each("all copies keep up", func(s *jetstream.StreamInfo) doctor.Diagnosis {
		if s.Cluster == nil {
			return doctor.Diagnosis{}
		}
		var away []string
		for _, r := range s.Cluster.Replicas {
			if r.Offline || !r.Current {
				away = append(away, r.Name)
			}
		}
		switch {
		case len(away) == 0:
			return doctor.Diagnosis{}
		case 2*len(away) >= s.Config.Replicas:
			return doctor.Diagnose(doctor.Bad, "behind or away: "+strings.Join(away, ", ")+"; nothing can be published", "start or look at these servers")
		}
		return doctor.Diagnose(doctor.Warn, "behind or away: "+strings.Join(away, ", "), "start or look at these servers")
	})
}

func (x *examination) stored() doctor.Diagnosis {
	return x.each("in files", func(s *jetstream.StreamInfo) doctor.Diagnosis {
		const anew = "this can't be changed: make another topic, and move its readers when they have read this one to its end"
		switch {
		case s.Config.Storage != jetstream.FileStorage:
			return doctor.Diagnose(doctor.Bad, "in memory", anew)
		case s.Config.PersistMode != jetstream.DefaultPersistMode:
			return doctor.Diagnose(doctor.Bad, "persist_mode async: acknowledged before it is on the disk", anew)
		}
		return doctor.Diagnosis{}
	})
}

func (x *examination) asMade() doctor.Diagnosis {
	return x.each("as Settle makes them", func(s *jetstream.StreamInfo) doctor.Diagnosis {
		if s.Config.Storage != jetstream.FileStorage || s.Config.PersistMode != jetstream.DefaultPersistMode {
			return doctor.Diagnosis{} // stream_storage says so
		}
		topic := strings.TrimPrefix(s.Config.Description, "Settle topic ")
		if len(s.Config.Subjects) > 0 {
			topic, _ = strings.CutSuffix(s.Config.Subjects[0], ".0")
		}
		if why := differs(s.Config, (&Broker{cfg: Config{}.withDefaults()}).spec(topic), false); why != "" {
			return doctor.Diagnose(doctor.Bad, why, edit(s, "")+"where it can be changed, or another topic")
		}
		return doctor.Diagnosis{}
	})
}

func (x *examination) room() doctor.Diagnosis {
	return x.each("enough", func(s *jetstream.StreamInfo) doctor.Diagnosis {
		limit := s.Config.MaxBytes
		if limit <= 0 || s.State.Bytes < uint64(limit)/10*8 {
			return doctor.Diagnosis{}
		}
		return doctor.Diagnose(doctor.Warn, fmt.Sprintf("%s of %s are used", size(s.State.Bytes), size(limit)), edit(s, fmt.Sprintf("--max-bytes %d", 2*limit)))
	})
}

func (x *examination) kept() doctor.Diagnosis {
	return x.each("records are kept for "+x.cfg.KeepFor.String()+" or longer", func(s *jetstream.StreamInfo) doctor.Diagnosis {
		if age := s.Config.MaxAge; age > 0 && age < x.cfg.KeepFor {
			return doctor.Diagnose(doctor.Bad, fmt.Sprintf("records are kept for %s, and must be readable for %s", age, x.cfg.KeepFor), edit(s, "--max-age "+x.cfg.KeepFor.String()))
		}
		return doctor.Diagnosis{}
	})
}

func (x *examination) window() doctor.Diagnosis {
	return x.each("2 minutes or longer", func(s *jetstream.StreamInfo) doctor.Diagnosis {
		if w := s.Config.Duplicates; w < min(dupWindow, max(s.Config.MaxAge, time.Second)) {
			return doctor.Diagnose(doctor.Warn, w.String(), edit(s, "--dupe-window 2m"))
		}
		return doctor.Diagnosis{}
	})
}
