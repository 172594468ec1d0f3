package nats

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/nats-io/nats.go/jetstream"
)

// Leads returns for each server that is there, by its host and port, whether it
// leads the topic (1) or not (0), and whether all of them have its copies. Clients
// are not told where a server is by its name; admins holds, by host and port, the
// URLs of the servers' monitors, which tell.
func (t *Tap) Leads(ctx context.Context, topic string, admins map[string]string) (leads map[string]int, whole bool, err error) {
	s, err := t.js.Stream(ctx, StreamName(topic))
	if err != nil {
		return nil, false, fmt.Errorf("look at topic %q: %w", topic, err)
	}
	cluster := s.CachedInfo().Cluster
	if cluster == nil {
		return nil, false, errors.New("the server has no cluster")
	}
	client := &http.Client{Timeout: tapTimeout}
	defer client.CloseIdleConnections()
	leads, whole = map[string]int{}, true
	for at, monitor := range admins {
		var self struct {
			Name string `json:"server_name"`
		}
		if err := askMonitor(ctx, client, monitor+"/varz", &self); err != nil {
			whole = false
			continue // it is not there
		}
		leads[at] = 0
		if self.Name == cluster.Leader {
			leads[at] = 1
		}
	}
	return leads, whole && len(cluster.Replicas)+1 == len(admins) && allCurrent(cluster.Replicas), nil
}

func allCurrent(copies []*jetstream.PeerInfo) bool {
	for _, c := range copies {
		if !c.Current || c.Offline {
			return false
		}
	}
	return true
}
