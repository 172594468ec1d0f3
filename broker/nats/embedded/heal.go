package embedded

import (
	"context"
	"os"
	"path/filepath"
	"time"
)

const (
	// probeEvery is how often a directory that took no data is tried again.
	probeEvery = time.Second
	// probeBytes is the room that a restart is worth: less would be used up
	// before the server has told its clients.
	probeBytes = 1 << 20
)

// heal restarts the server once its directory takes data again. A write that
// failed, on a full disk for instance, leaves the server refusing all later
// ones to the same topic until it recovers from its files. What it has
// acknowledged is in them. Until then it goes on serving reads. It returns nil
// as well when ctx is done.
func (s *Server) heal(ctx context.Context) error {
	for !s.takesData() {
		select {
		case <-ctx.Done():
			return s.Close()
		case <-time.After(probeEvery):
		}
	}
	s.cfg.Log.Warn("the broker starts again, because a write had failed; there is room now")
	s.stop()
	select {
	case <-s.broken: // it told of the server that has ended
	default:
	}
	return s.start()
}

// takesData writes a file beside the messages, and removes it.
func (s *Server) takesData() bool {
	f, err := os.Create(filepath.Join(s.cfg.Dir, "settle.probe"))
	if err != nil {
		return false
	}
	_, err = f.Write(make([]byte, probeBytes))
	if err == nil {
		err = f.Sync()
	}
	_ = f.Close()
	return os.Remove(f.Name()) == nil && err == nil
}
