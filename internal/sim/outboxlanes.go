package sim

import (
	"slices"
	"time"

	"github.com/settlemq/settle/relay"
)

// laneModel is one lane of an outbox: its lease and its newest checkpoint.
type laneModel struct {
	relay.Lane
	lease  relayLease
	latest storedCheckpoint
	ended  bool
	epoch  int64 // of the newest checkpoint that the checker has seen
}

// division is a generation of lanes.
type division struct {
	lanes   []*laneModel
	barrier int64 // where the lanes before it end
	begun   bool
}

// newDivision adds a generation of n lanes.
func (o *outboxModel) newDivision(n int) *division {
	d := &division{}
	for i := range n {
		l := &laneModel{Lane: relay.Lane{Number: len(o.lanes), Generation: len(o.divisions) + 1, Index: i, Of: n}}
		o.lanes, d.lanes = append(o.lanes, l), append(d.lanes, l)
	}
	o.divisions = append(o.divisions, d)
	return d
}

// active is the newest generation that has begun: its checkpoints say what is
// done.
func (o *outboxModel) active() *division {
	for i := len(o.divisions) - 1; ; i-- {
		if o.divisions[i].begun {
			return o.divisions[i]
		}
	}
}

// ownerOf is the lane of the active generation that owns a key.
func (o *outboxModel) ownerOf(key string) *laneModel {
	d := o.active()
	return d.lanes[relay.LaneOf(key, len(d.lanes))]
}

// Divide is a person changing the number of lanes.
func (o *outboxModel) Divide(n int) {
	last := o.divisions[len(o.divisions)-1]
	d := o.newDivision(n)
	for _, l := range last.lanes {
		for _, r := range l.latest.Readers {
			d.barrier = max(d.barrier, r.Cursor)
		}
	}
	o.controls.Version++
	o.w.probes.hit("lanes changed")
	o.w.hist.note(o.w.Since(), "operator", "divides", n, d.barrier)
}

// merged reports whether a generation may run. It lets it begin if that before it has ended: the readers of
// its lanes are merged, and each new lane has a checkpoint to start from.
func (o *outboxModel) merged(d *division) bool {
	i := slices.Index(o.divisions, d)
	if d.begun {
		return true
	}
	last := o.divisions[i-1]
	var ends []relay.End
	for _, l := range last.lanes {
		if !l.ended {
			return false
		}
		ends = append(ends, relay.End{Lane: l.Lane, Readers: cloneReaders(l.latest.Readers)})
	}
	found := map[int64]relay.Found{}
	for _, id := range relay.Undecided(ends) {
		if row := o.visible(id); row != nil {
			found[id] = relay.Found{Key: row.event.AggregateID, Destination: row.event.Topic}
		}
	}
	readers := relay.Merge(ends, found)
	for _, l := range d.lanes {
		l.latest = storedCheckpoint{Checkpoint: relay.Checkpoint{Number: 1, Readers: cloneReaders(readers)}}
	}
	d.begun = true
	o.w.probes.hit("lanes began")
	if len(found) > 0 {
		o.w.probes.hit("rows handed over between lanes")
	}
	o.w.hist.note(o.w.Since(), o.name, "merges", len(ends), len(d.lanes), readers)
	o.check.places()
	return true
}

// next is the generation behind a lane's, if one is ordered.
func (o *outboxModel) next(l *laneModel) *division {
	if l.Generation < len(o.divisions) {
		return o.divisions[l.Generation]
	}
	return nil
}

// Lead implements relay.Store by the database's clock.
func (o *outboxModel) Lead(owner string, number int, ttl time.Duration) relay.Lease {
	lane := o.lanes[number]
	now, l := o.w.dbNow(), &lane.lease
	no := relay.Lease{Lane: number}
	switch {
	case lane.ended:
		no.Ended = true
		return no
	case !o.merged(o.divisions[lane.Generation-1]):
		o.w.probes.hit("lane waits for those before it")
		no.Early = true
		return no
	case l.epoch > 0 && l.owner == owner && !l.resigned:
	case l.epoch > 0 && !l.resigned && now.Before(l.expires):
		return no
	default:
		o.takeover(lane, owner)
	}
	l.expires, l.seen, l.ttl = now.Add(ttl), now, ttl
	return relay.Lease{Held: true, Owner: owner, Lane: number, Epoch: l.epoch, Deaths: l.deaths}
}

func (o *outboxModel) takeover(lane *laneModel, owner string) {
	l := &lane.lease
	switch lived := l.seen.Sub(l.since); {
	case l.epoch == 0 || l.resigned:
		l.deaths = 0
	case lived > relay.LongLife*l.ttl:
		l.deaths = 1
	default:
		l.deaths++
		o.w.probes.hit("leader died young")
	}
	if l.epoch > 0 && !l.resigned {
		o.w.probes.hit("lease taken over")
		if o.next(lane) != nil {
			o.w.probes.hit("standby takes over a lane that is to end")
		}
	}
	*l = relayLease{owner: owner, epoch: l.epoch + 1, deaths: l.deaths, since: o.w.dbNow()}
	o.w.hist.note(o.w.Since(), o.name, "leader", owner, lane.Number, l.epoch, l.deaths)
}

// Resign implements relay.Store.
func (o *outboxModel) Resign(l relay.Lease) error {
	if err := o.holds(l); err != nil {
		return err
	}
	lane := o.lanes[l.Lane]
	lane.lease.resigned = true
	o.w.probes.hit("leader resigned")
	if l.Ended {
		lane.ended = true
		o.w.hist.note(o.w.Since(), o.name, "lane ends", l.Lane)
	}
	return nil
}
