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

func (x *examination) seen() diagnosis {
	var names []string
	for _, s := range x.streams {
		names = append(names, s.Config.Name)
	}
	switch {
	case len(x.missing) > 0:
		return diagnosis{doctor.Warn, "not there: " + strings.Join(x.missing, ", "), "settle serve makes them when it starts, or when they are first used"}
	case len(names) == 0:
		return diagnosis{doctor.Warn, "no stream was made for Settle, or none that this account may see", "name topics with --topic; or log in as the account that publishes"}
	}
	return sound("%s", strings.Join(names, ", "))
}

// each judges stream by stream; the worst verdict is that of all.
func (x *examination) each(good string, judge func(s *jetstream.StreamInfo) diagnosis) diagnosis {
	if len(x.streams) == 0 {
		return sound("there is no topic to look at")
	}
	var all diagnosis
	var found, fixes []string
	for _, s := range x.streams {
		one := judge(s)
		if one.verdict == "" {
			continue
		}
		if all.verdict != doctor.Bad {
			all.verdict = one.verdict
		}
		found = append(found, s.Config.Name+": "+one.found)
		fixes = append(fixes, one.fix)
	}
	if len(found) == 0 {
		return sound("%s", good)
	}
	all.found, all.fix = strings.Join(found, "; "), strings.Join(fixes, "; ")
	return all
}

func edit(s *jetstream.StreamInfo, option string) string {
	return "nats stream edit " + s.Config.Name + " " + option
}

func (x *examination) copies() diagnosis {
	return x.each("as many as there should be", func(s *jetstream.StreamInfo) diagnosis {
		n := s.Config.Replicas
		switch {
		case x.cluster == "":
			return diagnosis{} // one server can have one; servers says so
		case n == 1 && x.size() >= 3:
			return diagnosis{doctor.Bad, "one copy, which dies with its server", edit(s, "--replicas 3")}
		case n == 1:
			return diagnosis{doctor.Bad, "one copy, which dies with its server", "run three servers, then " + edit(s, "--replicas 3")}
		case n%2 == 0:
			return diagnosis{doctor.Warn, strconv.Itoa(n) + " copies: while one is away there is no majority, or none more than with one fewer", edit(s, "--replicas "+strconv.Itoa(n+1))}
		}
		return diagnosis{}
	})
}

func (x *examination) led() diagnosis {
	return x.each("every topic has one", func(s *jetstream.StreamInfo) diagnosis {
		if s.Cluster != nil && s.Cluster.Leader == "" {
			return diagnosis{doctor.Bad, "no leader", "start the servers that have its copies"}
		}
		return diagnosis{}
	})
}

func (x *examination) copiesNow() diagnosis {
	return x.each("all copies keep up", func(s *jetstream.StreamInfo) diagnosis {
		if s.Cluster == nil {
			return diagnosis{}
		}
		var away []string
		for _, r := range s.Cluster.Replicas {
			if r.Offline || !r.Current {
				away = append(away, r.Name)
			}
		}
		switch {
		case len(away) == 0:
			return diagnosis{}
		case 2*len(away) >= s.Config.Replicas:
			return diagnosis{doctor.Bad, "behind or away: " + strings.Join(away, ", ") + "; nothing can be published", "start or look at these servers"}
		}
		return diagnosis{doctor.Warn, "behind or away: " + strings.Join(away, ", "), "start or look at these servers"}
	})
}

func (x *examination) stored() diagnosis {
	return x.each("in files", func(s *jetstream.StreamInfo) diagnosis {
		const anew = "this can't be changed: make another topic, and move its readers when they have read this one to its end"
		switch {
		case s.Config.Storage != jetstream.FileStorage:
			return diagnosis{doctor.Bad, "in memory", anew}
		case s.Config.PersistMode != jetstream.DefaultPersistMode:
			return diagnosis{doctor.Bad, "persist_mode async: acknowledged before it is on the disk", anew}
		}
		return diagnosis{}
	})
}

func (x *examination) asMade() diagnosis {
	return x.each("as Settle makes them", func(s *jetstream.StreamInfo) diagnosis {
		if s.Config.Storage != jetstream.FileStorage || s.Config.PersistMode != jetstream.DefaultPersistMode {
			return diagnosis{} // stream_storage says so
		}
		topic := strings.TrimPrefix(s.Config.Description, "Settle topic ")
		if len(s.Config.Subjects) > 0 {
			topic, _ = strings.CutSuffix(s.Config.Subjects[0], ".0")
		}
		if why := differs(s.Config, (&Broker{cfg: Config{}.withDefaults()}).spec(topic), false); why != "" {
			return diagnosis{doctor.Bad, why, edit(s, "") + "where it can be changed, or another topic"}
		}
		return diagnosis{}
	})
}

func (x *examination) room() diagnosis {
	return x.each("enough", func(s *jetstream.StreamInfo) diagnosis {
		limit := s.Config.MaxBytes
		if limit <= 0 || s.State.Bytes < uint64(limit)/10*8 {
			return diagnosis{}
		}
		return diagnosis{doctor.Warn, fmt.Sprintf("%s of %s are used", size(s.State.Bytes), size(limit)), edit(s, fmt.Sprintf("--max-bytes %d", 2*limit))}
	})
}

func (x *examination) kept() diagnosis {
	return x.each("records are kept for "+x.cfg.KeepFor.String()+" or longer", func(s *jetstream.StreamInfo) diagnosis {
		if age := s.Config.MaxAge; age > 0 && age < x.cfg.KeepFor {
			return diagnosis{doctor.Bad, fmt.Sprintf("records are kept for %s, and must be readable for %s", age, x.cfg.KeepFor), edit(s, "--max-age "+x.cfg.KeepFor.String())}
		}
		return diagnosis{}
	})
}

func (x *examination) window() diagnosis {
	return x.each("2 minutes or longer", func(s *jetstream.StreamInfo) diagnosis {
		if w := s.Config.Duplicates; w < min(dupWindow, max(s.Config.MaxAge, time.Second)) {
			return diagnosis{doctor.Warn, w.String(), edit(s, "--dupe-window 2m")}
		}
		return diagnosis{}
	})
}
