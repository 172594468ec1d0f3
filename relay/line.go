package relay

// line is the way to one broker. What is in flight there takes no room from what
// is on its way to others.
type line struct {
	broker string
	flying int // batches without an answer, of any life
	// missing: this relay was not told where the broker is. What is owed to it
	// waits until a relay is.
	missing bool
}

// line finds the way to a broker, or makes it known.
func (m *Machine) line(broker string) *line {
	for _, l := range m.lines {
		if l.broker == broker {
			return l
		}
	}
	l := &line{broker: broker}
	if broker != "" {
		_, known := m.cfg.Brokers[broker]
		l.missing = !known
	}
	m.lines = append(m.lines, l)
	return l
}
