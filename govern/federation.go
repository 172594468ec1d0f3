package govern

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
)

// Source is one service's database under a name.
type Source struct {
	Name  string
	Store Store
}

// Federation looks at several services' databases at once. There is no copy
// and no extra pipeline: each answer is read from where the facts are.
type Federation struct {
	sources []Source
}

// NewFederation returns a federation of sources, in this order.
func NewFederation(sources ...Source) *Federation { return &Federation{sources: sources} }

// Names returns the services' names.
func (f *Federation) Names() []string {
	names := make([]string, len(f.sources))
	for i, s := range f.sources {
		names[i] = s.Name
	}
	return names
}

// Store returns the store of one service.
func (f *Federation) Store(name string) (Store, bool) {
	for _, s := range f.sources {
		if s.Name == name {
			return s.Store, true
		}
	}
	return nil, false
}

// Journey is the trail of an id over all services.
type Journey struct {
	ID string `json:"id"`
	// Steps are grouped by event, in the order in which the events began, and
	// by time within an event.
	Steps []Step `json:"steps"`
	// Silent names services that did not answer; their part is missing.
	Silent []string `json:"silent,omitempty"`
	// Unsearched names services whose outbox was not searched by ID, unless ID
	// is that of an event: it has no index for it. What consumers, retries and
	// dead letters told of was followed there.
	Unsearched []string `json:"unsearched,omitempty"`
}

// maxFollowed bounds how many events of a journey are asked for by event id.
const maxFollowed = 200

// Trail asks every service for id, then each for the events that only others
// told of: a consumer's log knows an event by its id and its key, not by the
// trace or the business key that its producer gave it. A service that fails is
// named in Silent; an error is returned only when none answered.
func (f *Federation) Trail(ctx context.Context, id string) (Journey, error) {
	j := Journey{ID: id, Steps: []Step{}}
	known := make([]map[string]bool, len(f.sources)) // events by service; nil: silent
	var events []string
	var failed error
	for i, s := range f.sources {
		steps, err := s.Store.Trail(ctx, id)
		if err != nil {
			failed = fmt.Errorf("ask %s: %w", s.Name, err)
			j.Silent = append(j.Silent, s.Name)
			continue
		}
		known[i] = map[string]bool{}
		for _, step := range steps {
			j.add(s.Name, step)
			known[i][step.EventID] = true
			if !slices.Contains(events, step.EventID) {
				events = append(events, step.EventID)
			}
		}
	}
	if failed != nil && len(j.Silent) == len(f.sources) {
		return j, failed
	}
	byEvent := slices.Contains(events, id)
	events = events[:min(len(events), maxFollowed)]
	for i, s := range f.sources {
		if known[i] != nil && !(j.follow(ctx, s, events, known[i]) && (byEvent || j.left(ctx, s))) {
			j.Silent = append(j.Silent, s.Name)
		}
	}
	j.order()
	return j, nil
}

// left notes that a service has not searched its outbox. It returns false when
// the service does not answer.
func (j *Journey) left(ctx context.Context, s Source) bool {
	p, ok := s.Store.(Partial)
	if !ok {
		return true
	}
	left, err := p.Unsearched(ctx)
	if left {
		j.Unsearched = append(j.Unsearched, s.Name)
	}
	return err == nil
}

// follow asks a service for events that it has not told of. It returns false
// when the service does not answer.
func (j *Journey) follow(ctx context.Context, s Source, events []string, known map[string]bool) bool {
	for _, event := range events {
		if known[event] {
			continue
		}
		steps, err := s.Store.Trail(ctx, event)
		if err != nil {
			return false
		}
		for _, step := range steps {
			if step.EventID == event {
				j.add(s.Name, step)
			}
		}
	}
	return true
}

func (j *Journey) add(service string, s Step) {
	s.Service = service
	j.Steps = append(j.Steps, s)
}

// order sorts steps by event and time, and puts a missing step where a service
// worked on an event that no answering service has produced.
func (j *Journey) order() {
	rank := map[string]int{
		StageFact: 0, StageAppended: 1, StageDelayed: 2, StagePublished: 3, StageParked: 4, StageReplay: 5, StageResend: 5, StageCompensate: 5,
		StageApplied: 6, StageRejected: 6, StageCompensated: 6, StageDuplicate: 6, StageDead: 6, StageDiscarded: 7,
	}
	began := map[string]Step{}
	produced := map[string]bool{}
	for _, s := range j.Steps {
		if first, ok := began[s.EventID]; !ok || s.At.Before(first.At) {
			began[s.EventID] = s
		}
		produced[s.EventID] = produced[s.EventID] || s.Stage == StageAppended
	}
	for id, first := range began {
		if !produced[id] {
			j.Steps = append(j.Steps, Step{
				At: first.At, Service: "?", Stage: StageMissing, EventID: id, EventType: first.EventType, Key: first.Key,
				TraceID: first.TraceID, Note: "no outbox that was asked has this event",
			})
		}
	}
	slices.SortStableFunc(j.Steps, func(a, b Step) int {
		if a.EventID != b.EventID {
			return cmp.Or(began[a.EventID].At.Compare(began[b.EventID].At), strings.Compare(a.EventID, b.EventID))
		}
		if (a.Stage == StageMissing) != (b.Stage == StageMissing) {
			if a.Stage == StageMissing {
				return -1
			}
			return 1
		}
		return cmp.Or(a.At.Compare(b.At), rank[a.Stage]-rank[b.Stage])
	})
}

// DeadLetters lists those of every service, by service and id. A service that
// fails fails the list: a list that is silently short would be believed.
func (f *Federation) DeadLetters(ctx context.Context, filter Filter) ([]DeadLetter, error) {
	all := []DeadLetter{}
	for _, s := range f.sources {
		letters, err := s.Store.DeadLetters(ctx, filter)
		if err != nil {
			return nil, fmt.Errorf("ask %s: %w", s.Name, err)
		}
		for _, d := range letters {
			d.Service = s.Name
			all = append(all, d)
		}
	}
	return all, nil
}
