package main

// Names of scenes.
const (
	sceneDrain    = "drain"
	sceneBatched  = "batched"
	scenePoisoned = "poisoned"
	sceneIdle     = "idle"
	sceneSnapshot = "snapshot"
	sceneLarge    = "large"
	sceneKill     = "kill"
	sceneSteady   = "steady"
	sceneBeside   = "beside"
	sceneConsumer = "consumer"
	sceneProducer = "producer"
)

var sceneNames = []string{sceneDrain, sceneBatched, scenePoisoned, sceneIdle, sceneSnapshot, sceneLarge, sceneKill, sceneSteady, sceneBeside, sceneConsumer, sceneProducer}

// scene is a trial of every contender, in each round or only in the first.
type scene struct {
	name  string
	trial func(contender) trial
	once  bool
	// follows: it comes right behind the scene before it, for each contender,
	// because the two are compared.
	follows bool
	seen    map[string][]outcome
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

func (s *scene) rates(name string) (v []float64) {
	for _, o := range s.seen[name] {
		v = append(v, o.Rate)
	}
	return v
}

// figure sums a scene up for one contender, beside the same contender's rates
// without what the scene changes. It stopped if it did in any round.
func (s *scene) figure(name string, without []float64) figure {
	if len(s.seen[name]) == 0 {
		return figure{}
	}
	f := figure{Measured: true, Rate: median(s.rates(name)), OldEvents: s.middle(name, func(o outcome) float64 { return o.OldEvents })}
	for _, o := range s.seen[name] {
		f.Lost, f.MemoryMB = max(f.Lost, o.Lost), max(f.MemoryMB, o.Memory)
		if o.Stopped {
			f.Stopped, f.Carried = true, o.Carried
		}
	}
	f.Ratio = medianRatio(s.rates(name), without)
	return f
}

// drain is the plain trial: a backlog stored one event a transaction.
func (b *bench) drain(c contender) trial {
	return b.backlog(c, b.cfg.events/max(1, c.share))
}

// batched is a backlog stored 100 events a transaction, half as large for slow
// contenders, and what the scenes change in one thing.
func (b *bench) batched(c contender) trial {
	t := b.drain(c)
	if c.share > 1 {
		t = b.backlog(c, t.events/2)
	}
	t.perTransaction = 100
	return t
}

// prepare lists the scenes of a round.
func (b *bench) prepare() {
	b.scenes = map[string]*scene{}
	add := func(s scene) {
		s.seen = map[string][]outcome{}
		b.scenes[s.name] = &s
		if b.cfg.scene.MatchString(s.name) {
			b.round = append(b.round, &s)
		}
	}
	changed := func(change func(*trial)) func(contender) trial {
		return func(c contender) trial {
			t := b.batched(c)
			change(&t)
			return t
		}
	}
	add(scene{name: sceneDrain, trial: b.drain})
	add(scene{name: sceneBatched, trial: b.batched})
	add(scene{name: scenePoisoned, follows: true, trial: func(c contender) trial {
		if c.name == rawName {
			return trial{} // it knows no refusal
		}
		return changed(func(t *trial) { t.poisoned = true })(c)
	}})
	add(scene{name: sceneIdle, follows: true, trial: changed(func(t *trial) { t.hold = holdWrite })})
	add(scene{name: sceneSnapshot, follows: true, trial: changed(func(t *trial) { t.hold = holdSnapshot })})
	add(scene{name: sceneLarge, once: true, trial: func(c contender) trial {
		t := b.backlog(c, b.cfg.events/20)
		t.perTransaction, t.largeEvery = 10, 10
		return t
	}})
	add(scene{name: sceneKill, once: true, trial: changed(func(t *trial) { t.kill = true })})
}

// summarise fills in what the rounds have shown. Bytes of logs are the least of
// them: what else goes on at the server can only add to it.
func (b *bench) summarise() {
	plain := b.scenes[sceneDrain]
	for i := range b.part.Relays {
		row := &b.part.Relays[i]
		n := row.Name
		batched := b.scenes[sceneBatched].rates(n)
		row.Rate, row.Batched = median(plain.rates(n)), median(batched)
		row.RatioToRaw = medianRatio(plain.rates(n), plain.rates(rawName))
		row.LeanRatio = medianRatio(plain.rates(leanName), plain.rates(n))
		row.RelayCPU = plain.middle(n, func(o outcome) float64 { return o.RelayCPU })
		row.ServerCPU = plain.middle(n, func(o outcome) float64 { return o.ServerCPU })
		row.OldEvents = plain.middle(n, func(o outcome) float64 { return o.OldEvents })
		row.Old = plain.middle(n, func(o outcome) float64 { return o.Old })
		for j, o := range plain.seen[n] {
			if j == 0 || o.Log < row.Log {
				row.Log = o.Log
			}
		}
		row.Poisoned = b.scenes[scenePoisoned].figure(n, batched)
		row.Idle = b.scenes[sceneIdle].figure(n, batched)
		row.Snapshot = b.scenes[sceneSnapshot].figure(n, batched)
		row.Large = b.scenes[sceneLarge].figure(n, nil)
		row.Killed = len(b.scenes[sceneKill].seen[n]) > 0
		row.Twice = int(b.scenes[sceneKill].middle(n, func(o outcome) float64 { return float64(o.Twice) }))
	}
}
