package rabbitmq

// strands say which messages of a batch may be sent now: of each key the next
// one, and only when the one before it is confirmed. RabbitMQ may refuse one
// message and take the next.
type strands struct {
	// behind holds, per key, the messages that wait for the one before them.
	behind map[string][]int
	ready  []int
}

// newStrands takes the keys of a batch, in order.
func newStrands(n int, key func(i int) string) *strands {
	s := &strands{behind: make(map[string][]int, n), ready: make([]int, 0, n)}
	for i := range n {
		k := key(i)
		waiting, begun := s.behind[k]
		if !begun {
			s.behind[k] = nil
			s.ready = append(s.ready, i)
			continue
		}
		s.behind[k] = append(waiting, i)
	}
	return s
}

// next takes a message that may be sent.
func (s *strands) next() (i int, ok bool) {
	if len(s.ready) == 0 {
		return 0, false
	}
	i = s.ready[0]
	s.ready = s.ready[1:]
	return i, true
}

// held lets the next message of a key go.
func (s *strands) held(key string) {
	if waiting := s.behind[key]; len(waiting) > 0 {
		s.ready = append(s.ready, waiting[0])
		s.behind[key] = waiting[1:]
	}
}

// failed returns the messages of a key that are not to be sent any more.
func (s *strands) failed(key string) []int {
	waiting := s.behind[key]
	s.behind[key] = nil
	return waiting
}
