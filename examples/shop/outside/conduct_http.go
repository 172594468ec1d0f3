package outside

import (
	"encoding/json"
	"net/http"
	"time"
)

// setConduct answers POST /misbehave with how the system stands then.
func (d *desk) setConduct(w http.ResponseWriter, r *http.Request) {
	body, wrong := readBody(w, r)
	if wrong != nil {
		wrong.write(w)
		return
	}
	var m Misbehaviour
	if err := json.Unmarshal(body, &m); err != nil {
		refuse(http.StatusBadRequest, "the body can't be read: "+err.Error()).write(w)
		return
	}
	if err := m.Check(d.system); err != nil {
		refuse(http.StatusUnprocessableEntity, err.Error()).write(w)
		return
	}
	d.mu.Lock()
	d.conduct.set(time.Now(), m)
	close(d.changed)
	d.changed = make(chan struct{})
	d.mu.Unlock()
	d.log.Info("told how to behave", "mode", m.Mode, "customers", m.Customers)
	d.showConduct(w, r)
}

// showConduct answers GET /misbehave.
func (d *desk) showConduct(w http.ResponseWriter, r *http.Request) {
	s := Standing{System: d.system, Asked: d.asked.Load(), Rules: d.standing(time.Now())}
	var err error
	if s.Misbehaved, err = d.ledger.counts(r.Context()); err == nil {
		s.Ledger, err = d.ledger.sums(r.Context())
	}
	if err != nil {
		d.failed(w, err)
		return
	}
	b, err := json.Marshal(s)
	if err != nil {
		d.failed(w, err)
		return
	}
	writeAnswer(w, answer{status: http.StatusOK, body: b})
}

func (d *desk) standing(now time.Time) []Misbehaviour {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.conduct.expire(now)
	all := []Misbehaviour{}
	for _, r := range d.conduct.rules {
		m := r.Misbehaviour
		if !r.until.IsZero() {
			m.For = r.until.Sub(now).Round(time.Millisecond)
		}
		all = append(all, m)
	}
	return all
}
