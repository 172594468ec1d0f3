package outside

import (
	"slices"
	"time"
)

// rule is a misbehaviour that stands until its end.
type rule struct {
	Misbehaviour
	id    int
	until time.Time // zero: for ever
}

func (r rule) ended(now time.Time) bool { return !r.until.IsZero() && !now.Before(r.until) }

// conduct is how a system behaves: the rules that stand, oldest first. It is
// pure: time and chance come from outside.
type conduct struct {
	rules []rule
	last  int // id of the newest
}

// set makes m stand, in place of an older one of its mode and customers. ok
// ends what stands instead.
func (c *conduct) set(now time.Time, m Misbehaviour) {
	m = m.withDefaults()
	m.Customers = slices.Compact(slices.Sorted(slices.Values(m.Customers)))
	c.expire(now)
	if m.Mode == ModeOK {
		c.clear(m.Customers)
		return
	}
	c.rules = slices.DeleteFunc(c.rules, func(r rule) bool { return r.Mode == m.Mode && slices.Equal(r.Customers, m.Customers) })
	c.last++
	r := rule{Misbehaviour: m, id: c.last}
	if m.For > 0 {
		r.until = now.Add(m.For)
	}
	c.rules = append(c.rules, r)
}

// clear ends all rules, or takes customers out of those that name them.
func (c *conduct) clear(customers []string) {
	if len(customers) == 0 {
		c.rules = nil
		return
	}
	var kept []rule
	for _, r := range c.rules {
		named := len(r.Customers) > 0
		r.Customers = slices.DeleteFunc(slices.Clone(r.Customers), func(name string) bool { return slices.Contains(customers, name) })
		if !named || len(r.Customers) > 0 {
			kept = append(kept, r)
		}
	}
	c.rules = kept
}

func (c *conduct) expire(now time.Time) {
	c.rules = slices.DeleteFunc(c.rules, func(r rule) bool { return r.ended(now) })
}

// personal reports whether any rule is for some customers only.
func (c *conduct) personal() bool {
	return slices.ContainsFunc(c.rules, func(r rule) bool { return len(r.Customers) > 0 })
}

// meet returns the newest rule that meets a customer's request. chance returns
// a number from 0 up to 1, another one for each rule.
func (c *conduct) meet(now time.Time, customerID string, chance func() float64) (rule, bool) {
	c.expire(now)
	for _, r := range slices.Backward(c.rules) {
		if (len(r.Customers) == 0 || slices.Contains(r.Customers, customerID)) && chance() < r.Share {
			return r, true
		}
	}
	return rule{}, false
}

// holds reports whether a rule still stands for a customer.
func (c *conduct) holds(now time.Time, id int, customerID string) bool {
	c.expire(now)
	return slices.ContainsFunc(c.rules, func(r rule) bool {
		return r.id == id && (len(r.Customers) == 0 || slices.Contains(r.Customers, customerID))
	})
}
