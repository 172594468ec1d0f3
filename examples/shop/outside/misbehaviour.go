package outside

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Modes of behaviour.
const (
	ModeOK      = "ok"
	ModeSlow    = "slow"    // does the work and answers late
	ModeFail    = "fail"    // answers 500, nothing is done
	ModeHang    = "hang"    // nothing is done, and there is no answer until the client leaves or the mode ends
	ModeLost    = "lost"    // does the work and closes the connection
	ModeGarbage = "garbage" // does the work and answers what makes no sense
	ModeAway    = "away"    // answers 503, nothing is done
)

// Modes returns all modes, ok first.
func Modes() []string {
	return []string{ModeOK, ModeSlow, ModeFail, ModeHang, ModeLost, ModeGarbage, ModeAway}
}

// Misbehaviour is how a system is to behave. Several may stand at a time, one
// for each mode and list of customers; the newest that meets a request counts.
// They end with the process. As JSON, durations are text such as "300ms".
type Misbehaviour struct {
	// Mode is one of Modes. ModeOK ends what stands: all of it, or what was
	// said of Customers.
	Mode string
	// Share is the part of the requests that is met, more than 0 to 1. Defaults
	// to 1.
	Share float64
	// Delay is how late an answer is in ModeSlow, at most 30 s. Defaults to
	// 300 ms.
	Delay time.Duration
	// For is after how long it ends by itself. Defaults to never.
	For time.Duration
	// Customers are those whose requests are met; a request that names no
	// customer counts for the customer that the order had before. Defaults to
	// all. A carrier is told of no customers and refuses to tell them apart.
	Customers []string
}

// Bounds of a misbehaviour.
const (
	maxDelay     = 30 * time.Second
	maxCustomers = 1000
)

// misbehaviourJSON is a Misbehaviour on the wire.
type misbehaviourJSON struct {
	Mode      string   `json:"mode"`
	Share     float64  `json:"share,omitempty"`
	Delay     string   `json:"delay,omitempty"`
	For       string   `json:"for,omitempty"`
	Customers []string `json:"customers,omitempty"`
}

// MarshalJSON writes durations as text.
func (m Misbehaviour) MarshalJSON() ([]byte, error) {
	text := func(d time.Duration) string {
		if d == 0 {
			return ""
		}
		return d.String()
	}
	return json.Marshal(misbehaviourJSON{m.Mode, m.Share, text(m.Delay), text(m.For), m.Customers})
}

// UnmarshalJSON reads what MarshalJSON writes, and nothing else.
func (m *Misbehaviour) UnmarshalJSON(b []byte) error {
	var w misbehaviourJSON
	if err := decodeStrict(b, &w); err != nil {
		return err
	}
	*m = Misbehaviour{Mode: w.Mode, Share: w.Share, Customers: w.Customers}
	for _, d := range []struct {
		field, text string
		into        *time.Duration
	}{{"delay", w.Delay, &m.Delay}, {"for", w.For, &m.For}} {
		if d.text == "" {
			continue
		}
		var err error
		if *d.into, err = time.ParseDuration(d.text); err != nil {
			return fmt.Errorf("%s %q is no duration like 300ms", d.field, d.text)
		}
	}
	return nil
}

// Check returns what is wrong with m for a system.
func (m Misbehaviour) Check(system string) error {
	switch {
	case !slices.Contains(Modes(), m.Mode):
		return fmt.Errorf("unknown mode %q; the modes are %s", m.Mode, strings.Join(Modes(), ", "))
	case !(m.Share >= 0 && m.Share <= 1):
		return fmt.Errorf("share is %v; it must be more than 0 and at most 1", m.Share)
	case m.Delay < 0 || m.Delay > maxDelay:
		return fmt.Errorf("delay is %s; it must be 0s to %s", m.Delay, maxDelay)
	case m.For < 0:
		return fmt.Errorf("for is %s; it must be 0s or more", m.For)
	case len(m.Customers) > maxCustomers:
		return fmt.Errorf("customers has %d entries; the limit is %d", len(m.Customers), maxCustomers)
	case len(m.Customers) > 0 && system == CarrierSystem:
		return fmt.Errorf("the %s is told of no customers and can't tell them apart", CarrierSystem)
	}
	for _, c := range m.Customers {
		if why := badName("customers", c); why != "" {
			return fmt.Errorf("%s", why)
		}
	}
	return nil
}

func (m Misbehaviour) withDefaults() Misbehaviour {
	if m.Share == 0 {
		m.Share = 1
	}
	if m.Mode == ModeSlow && m.Delay == 0 {
		m.Delay = 300 * time.Millisecond
	}
	return m
}
