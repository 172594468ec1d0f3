package main

// Names of scenes.
const (
	sceneDrain    = "drain"
	sceneBatched  = "batched"
	scenePoisoned = "poisoned"
	sceneIdle     = "idle"
	sceneXmin     = "xmin"
	sceneLarge    = "large"
	sceneKill     = "kill"
	sceneSteady   = "steady"
	sceneConsumer = "consumer"
	sceneProducer = "producer"
)

var sceneNames = []string{sceneDrain, sceneBatched, scenePoisoned, sceneIdle, sceneXmin, sceneLarge, sceneKill, sceneSteady, sceneConsumer, sceneProducer}

// scene is a trial of every contender, in each round or only in the first.
type scene struct {
	name  string
	trial func(contender) trial
	once  bool
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
	f := figure{Measured: true, Rate: median(s.rates(name)), DeadEvents: s.middle(name, func(o outcome) float64 { return o.DeadEvents })}
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

// batched is half as large a backlog, stored 100 events a transaction, and what
// the scenes change in one thing.
func (b *bench) batched(c contender) trial {
	t := b.backlog(c, b.cfg.events/2/max(1, c.share))
	t.perTransaction = 100
	return t
}

// prepare lists the scenes of a round.
func (b *bench) prepare() {
	b.scenes = map[string]*scene{}
	add := func(name string, of func(contender) trial) {
		s := &scene{name: name, trial: of, once: name == sceneLarge || name == sceneKill, seen: map[string][]outcome{}}
		b.scenes[name] = s
		if b.cfg.scene.MatchString(name) {
			b.round = append(b.round, s)
		}
	}
	changed := func(change func(*trial)) func(contender) trial {
		return func(c contender) trial {
			t := b.batched(c)
			change(&t)
			return t
		}
	}
	add(sceneDrain, b.drain)
	add(sceneBatched, b.batched)
	add(scenePoisoned, func(c contender) trial {
		if c.name == rawName {
			return trial{} // it knows no refusal
		}
		return changed(func(t *trial) { t.poisoned = true })(c)
	})
	add(sceneIdle, changed(func(t *trial) { t.hold = holdWrite }))
	add(sceneXmin, changed(func(t *trial) { t.hold = holdSnapshot }))
	add(sceneLarge, func(c contender) trial {
		t := b.backlog(c, b.cfg.events/20)
		t.perTransaction, t.largeEvery = 10, 10
		return t
	})
	add(sceneKill, changed(func(t *trial) { t.kill = true }))
}

// summarise fills in what the rounds have shown. WAL is the least of them: what
// else goes on at the server can only add to it.
func (b *bench) summarise() {
	plain := b.scenes[sceneDrain]
	for i := range b.report.Relays {
		row := &b.report.Relays[i]
		n := row.Name
		batched := b.scenes[sceneBatched].rates(n)
		row.Rate, row.Batched = median(plain.rates(n)), median(batched)
		row.RatioToRaw = medianRatio(plain.rates(n), plain.rates(rawName))
		row.LeanRatio = medianRatio(plain.rates(leanName), plain.rates(n))
		row.RelayCPU = plain.middle(n, func(o outcome) float64 { return o.RelayCPU })
		row.ServerCPU = plain.middle(n, func(o outcome) float64 { return o.ServerCPU })
		row.DeadEvents = plain.middle(n, func(o outcome) float64 { return o.DeadEvents })
		row.Dead = plain.middle(n, func(o outcome) float64 { return o.Dead })
		for j, o := range plain.seen[n] {
			if j == 0 || o.WAL < row.WAL {
				row.WAL = o.WAL
			}
		}
		row.Poisoned = b.scenes[scenePoisoned].figure(n, batched)
		row.Idle = b.scenes[sceneIdle].figure(n, batched)
		row.Xmin = b.scenes[sceneXmin].figure(n, batched)
		row.Large = b.scenes[sceneLarge].figure(n, nil)
		row.Killed = len(b.scenes[sceneKill].seen[n]) > 0
		row.Twice = int(b.scenes[sceneKill].middle(n, func(o outcome) float64 { return float64(o.Twice) }))
	}
}
