package main

// scene is a trial of every contender, once a round.
type scene struct {
	name  string
	trial func(contender) trial
	seen  map[string][]outcome
}

func (s *scene) keep(name string, o outcome) { s.seen[name] = append(s.seen[name], o) }

// middle is the median of what was seen.
func (s *scene) middle(name string, of func(outcome) float64) float64 {
	var v []float64
	for _, o := range s.seen[name] {
		v = append(v, of(o))
	}
	return median(v)
}

func (s *scene) rate(name string) float64 {
	return s.middle(name, func(o outcome) float64 { return o.Rate })
}

// figure sums a scene up for one contender. It stopped if it did in any round.
func (s *scene) figure(name string, without float64) figure {
	if len(s.seen[name]) == 0 {
		return figure{}
	}
	f := figure{Measured: true, Rate: s.rate(name), DeadEvents: s.middle(name, func(o outcome) float64 { return o.DeadEvents })}
	for _, o := range s.seen[name] {
		f.Lost, f.MemoryMB = max(f.Lost, o.Lost), max(f.MemoryMB, o.Memory)
		if o.Stopped {
			f.Stopped, f.Carried = true, o.Carried
		}
	}
	if without > 0 {
		f.Ratio = f.Rate / without
	}
	return f
}

// drain is the plain trial: a backlog stored one event a transaction.
func (b *bench) drain(c contender) trial {
	return b.backlog(c, b.cfg.events/max(1, c.share))
}

// batched is a backlog stored 100 events a transaction, and what the scenes
// change in one thing.
func (b *bench) batched(c contender) trial {
	t := b.drain(c)
	t.perTransaction = 100
	return t
}

// rounds are the scenes of a round, in this order: drain, batched, poisoned key,
// idle transaction, xmin held, large rows, kill.
func (b *bench) rounds() []*scene {
	if b.made != nil {
		return b.made
	}
	add := func(name string, of func(contender) trial) {
		b.made = append(b.made, &scene{name: name, trial: of, seen: map[string][]outcome{}})
	}
	changed := func(change func(*trial)) func(contender) trial {
		return func(c contender) trial {
			t := b.batched(c)
			change(&t)
			return t
		}
	}
	add("drain", b.drain)
	add("drain, 100 a commit", b.batched)
	add("poisoned key", func(c contender) trial {
		if c.name == rawName {
			return trial{} // it knows no refusal
		}
		return changed(func(t *trial) { t.poisoned = true })(c)
	})
	add("idle transaction", changed(func(t *trial) { t.hold = holdWrite }))
	add("xmin held", changed(func(t *trial) { t.hold = holdSnapshot }))
	add("256 KB rows", func(c contender) trial {
		t := b.backlog(c, b.cfg.events/20)
		t.perTransaction, t.largeEvery = 10, 10
		return t
	})
	add("SIGKILL", changed(func(t *trial) { t.kill = true }))
	return b.made
}

// summarise fills in what the rounds have shown. WAL is the least of them: what
// else goes on at the server can only add to it.
func (b *bench) summarise() {
	s := b.rounds()
	for i := range b.report.Relays {
		row := &b.report.Relays[i]
		n := row.Name
		row.Rate, row.Batched = s[0].rate(n), s[1].rate(n)
		row.RatioToRaw = row.Rate / s[0].rate(rawName)
		row.RelayCPU = s[0].middle(n, func(o outcome) float64 { return o.RelayCPU })
		row.ServerCPU = s[0].middle(n, func(o outcome) float64 { return o.ServerCPU })
		row.DeadEvents = s[0].middle(n, func(o outcome) float64 { return o.DeadEvents })
		row.Dead = s[0].middle(n, func(o outcome) float64 { return o.Dead })
		row.WAL = s[0].seen[n][0].WAL
		for _, o := range s[0].seen[n] {
			row.WAL = min(row.WAL, o.WAL)
		}
		row.Poisoned, row.Idle, row.Xmin = s[2].figure(n, row.Batched), s[3].figure(n, row.Batched), s[4].figure(n, row.Batched)
		row.Large = s[5].figure(n, 0)
		row.Twice = int(s[6].middle(n, func(o outcome) float64 { return float64(o.Twice) }))
	}
}
