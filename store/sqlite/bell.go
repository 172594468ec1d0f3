package sqlite

// bell tells whoever waits that a transaction of this process has committed.
// A ring while nobody waits is kept for the next one who does.
type bell struct{ rung chan struct{} }

func newBell() *bell { return &bell{rung: make(chan struct{}, 1)} }

func (b *bell) ring() {
	select {
	case b.rung <- struct{}{}:
	default:
	}
}
