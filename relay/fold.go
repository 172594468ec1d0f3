package relay

import (
	"slices"
)

// fold writes a checkpoint's readers where routes lead elsewhere than to the
// topics of rows. Stores, and programs without routes, know rows by their topics
// alone: for them there is a reader of each topic from which events come to a
// destination that reads for itself, and it is at the least that any reader of
// the topic has reached. So nothing counts as done that is not done everywhere.
// What the readers are, the first says besides.
func fold(readers []Reader, lists []Routing) []Reader {
	main := readers[0]
	main.Routing, main.Routed = lists, readers[1:]
	folded := []Reader{main}
	for _, topic := range topicsOf(main.Routed) {
		folded = append(folded, least(topic, main))
	}
	return folded
}

func topicsOf(readers []Reader) []string {
	var topics []string
	for i := range readers {
		topics = append(topics, readers[i].Topics...)
	}
	slices.Sort(topics)
	return slices.Compact(topics)
}

// least is what a topic's rows have reached at all of the destinations to which
// they may go, those that the main reader serves among them.
func least(topic string, main Reader) Reader {
	r := Reader{Destination: topic, Cursor: main.Cursor, CursorEvent: main.CursorEvent}
	open := slices.Clone(main.Open)
	for _, o := range main.Routed {
		if _, serves := slices.BinarySearch(o.Topics, topic); !serves {
			continue
		}
		if o.Cursor < r.Cursor {
			r.Cursor, r.CursorEvent = o.Cursor, o.CursorEvent
		}
		open = append(open, o.Open...)
	}
	r.Open = slices.DeleteFunc(unique(open), func(id int64) bool { return id > r.Cursor })
	return r
}

// unfold returns the readers that a checkpoint is of, the main one first, and the
// routes that it was written under.
func unfold(readers []Reader) ([]Reader, []Routing) {
	for _, r := range readers {
		if r.Destination == "" && len(r.Routing) > 0 {
			routed, lists := r.Routed, r.Routing
			r.Routing, r.Routed = nil, nil
			return append([]Reader{r}, routed...), lists
		}
	}
	return readers, nil
}

// doneUpTo is the id below which nothing is open at any of the readers.
func doneUpTo(readers []Reader) int64 {
	low := readers[0].Cursor
	for i := range readers {
		low = min(low, readers[i].Cursor)
		if len(readers[i].Open) > 0 {
			low = min(low, readers[i].Open[0]-1)
		}
	}
	return low
}
