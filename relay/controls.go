package relay

import (
	"time"

	"github.com/settlemq/settle"
)

// controls is what people ordered: pauses and skips.
type controls struct {
	settle.Controls
	version     int64
	relayPaused bool
	keys        map[string]bool // paused
	skipIDs     map[string]bool
	// divided: the lane ends at barrier.
	divided bool
	barrier int64
	due     time.Time
	asked   int64 // the flush committed when they were asked for
}

// controlsEvery bounds how long an order may go unnoticed when no poll tells
// that there is one.
const controlsEvery = time.Second

func (m *Machine) planControls() {
	if !m.asked[askControls] && m.reached(m.ctl.due) {
		m.ctl.asked = m.flush.committed
		m.ask(askControls, LoadControls{})
	}
}

func (m *Machine) controlsLoaded(in ControlsLoaded) {
	if !m.answered(askControls) {
		return
	}
	m.storeAnswered()
	changed := in.Controls.Version != m.ctl.version
	if changed {
		m.applyControls(in.Controls)
		m.sides.listed()
	}
	m.ctl.due = m.now.Add(controlsEvery)
	if changed || m.dead > 0 {
		m.revive(in.Controls.Parked)
	}
}

func (m *Machine) applyControls(c Controls) {
	ctl := &m.ctl
	ctl.Controls, ctl.version = c.Controls, c.Version
	ctl.relayPaused = c.Paused("relay", "")
	ctl.divided, ctl.barrier = c.Divided, c.Barrier
	ctl.keys, ctl.skipIDs = nil, nil
	for _, r := range c.Rows {
		if r.Kind == "key" {
			if ctl.keys == nil {
				ctl.keys = make(map[string]bool)
			}
			ctl.keys[r.Name] = true
		}
	}
	for _, id := range c.Skips {
		if ctl.skipIDs == nil {
			ctl.skipIDs = make(map[string]bool)
		}
		ctl.skipIDs[id] = true
	}
	for _, d := range m.dests {
		d.paused = c.Paused("topic", d.name)
	}
	ctl.due = m.now.Add(controlsEvery)
}

// revive goes on with keys that a person made due again, discarded the head
// of, or resumed.
func (m *Machine) revive(now []ParkedKey) {
	there := make(map[[2]string]bool, len(now))
	for _, k := range now {
		d := m.destination(k.Destination)
		pk := d.keys[k.Key]
		there[[2]string{k.Destination, k.Key}] = true
		if pk != nil && pk.dead && !k.HeadDead && pk.flush <= m.ctl.asked {
			m.setDead(pk, false)
			pk.due, pk.good, pk.rounds = k.HeadDue, false, 0
		}
	}
	for _, d := range m.dests {
		for _, pk := range d.keys {
			if pk.dead && pk.flush <= m.ctl.asked && !there[[2]string{d.name, pk.key}] {
				m.setDead(pk, false)
				pk.due = m.now
			}
			m.schedule(d, pk)
		}
	}
}

func (m *Machine) keyPaused(key string) bool { return len(m.ctl.keys) > 0 && m.ctl.keys[key] }

func (m *Machine) skips(row Row) bool {
	return len(m.ctl.skipIDs) > 0 && row.Event != nil && m.ctl.skipIDs[row.Event.ID]
}

// skip passes a row that a person named.
func (m *Machine) skip(d *destination, it *item) {
	m.flush.Skip = append(m.flush.Skip, Skip{ID: it.row.ID, EventID: eventID(it.row), Destination: d.name, From: it.from, Share: m.shareOf(d, it)})
	m.stats.Skipped++
	m.left(d, it)
}
