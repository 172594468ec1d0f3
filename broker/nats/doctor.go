package nats

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/settlemq/settle/doctor"
)

// DoctorConfig says how a server or cluster is examined. The zero value works.
type DoctorConfig struct {
	// Topics are looked at whether they are there or not. Defaults to none, and
	// then to all streams that were made for Settle.
	Topics []string
	// Others has all other such streams looked at beside Topics. Defaults to false.
	Others bool
	// KeepFor is how far back a consumer must be able to read: how long it may be
	// away, and how old what is replayed may be. Defaults to 7 days.
	KeepFor time.Duration
	// Timeout bounds each request. Defaults to 10 s.
	Timeout time.Duration
}

// Doctor examines a server, or a cluster, without changing it.
type Doctor struct {
	url string
	cfg DoctorConfig
}

var _ doctor.Checker = (*Doctor)(nil)

// NewDoctor returns a Doctor for the server or cluster at url (see Open), whose
// option monitor leads to what clients are not told. It does no I/O.
func NewDoctor(url string, cfg DoctorConfig) *Doctor {
	if cfg.KeepFor <= 0 {
		cfg.KeepFor = 7 * 24 * time.Hour
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = 10 * time.Second
	}
	return &Doctor{url: url, cfg: cfg}
}

// Check implements doctor.Checker.
func (d *Doctor) Check(ctx context.Context) ([]doctor.Finding, error) {
	return d.examine(ctx, func(string) bool { return true })
}

// Durability implements doctor.Checker.
func (d *Doctor) Durability(ctx context.Context) ([]doctor.Finding, error) {
	return d.examine(ctx, func(name string) bool {
		return slices.Contains([]string{"sync_interval", "stream_copies", "stream_storage"}, name)
	})
}

func (d *Doctor) examine(ctx context.Context, want func(name string) bool) ([]doctor.Finding, error) {
	at, err := parseURL(d.url)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 6*d.cfg.Timeout)
	defer cancel()
	b := &Broker{cfg: Config{Name: "settle doctor", Timeout: d.cfg.Timeout}.withDefaults(), link: newLink()}
	if err := b.connectOnce(at); err != nil { // nobody waits for a server that is away
		return nil, fmt.Errorf("connect to broker: %w", err)
	}
	defer b.nc.Close()
	x := &examination{cfg: d.cfg, at: at, b: b}
	if err := x.gather(ctx); err != nil {
		return nil, fmt.Errorf("ask JetStream: %w", err)
	}
	var found []doctor.Finding
	for _, c := range x.checks() {
		if want(c.name) {
			found = append(found, c.finding())
		}
	}
	return found, nil
}

// check is one thing that is judged, and what it matters for.
type check struct {
	name, why string
	judge     func() doctor.Diagnosis
}

func (c check) finding() doctor.Finding {
	return c.judge().Of(c.name, c.why)
}

// examination is what was seen of a server or cluster.
type examination struct {
	cfg DoctorConfig
	at  address
	b   *Broker

	account *jetstream.AccountInfo
	// servers are those that the connection knows of.
	servers []string
	version string
	cluster string
	payload int64
	streams []*jetstream.StreamInfo
	// missing are topics that were named and are not there.
	missing  []string
	monitors []monitorSeen
}

func (x *examination) checks() []check { return slices.Concat(x.serverChecks(), x.streamChecks()) }

// gather asks for all that is judged.
func (x *examination) gather(ctx context.Context) (err error) {
	if x.account, err = x.b.js.AccountInfo(ctx); err != nil {
		return err
	}
	x.version, x.cluster, x.payload = x.b.nc.ConnectedServerVersion(), x.b.nc.ConnectedClusterName(), x.b.nc.MaxPayload()
	x.servers = slices.Compact(slices.Sorted(slices.Values(slices.Concat(x.b.nc.Servers(), x.b.nc.DiscoveredServers()))))
	x.monitors = askMonitors(ctx, x.at.monitors, x.cfg.Timeout)
	return x.gatherStreams(ctx)
}

func (x *examination) gatherStreams(ctx context.Context) error {
	names := x.cfg.Topics
	if len(names) == 0 || x.cfg.Others {
		list := x.b.js.ListStreams(ctx)
		for info := range list.Info() {
			if info.Config.Metadata[metaPartitions] != "" && !slices.ContainsFunc(names, func(topic string) bool { return StreamName(topic) == info.Config.Name }) {
				x.streams = append(x.streams, info)
			}
		}
		if err := list.Err(); err != nil {
			return err
		}
	}
	for _, topic := range names {
		s, err := x.b.js.Stream(ctx, StreamName(topic))
		switch {
		case errors.Is(err, jetstream.ErrStreamNotFound):
			x.missing = append(x.missing, topic)
		case err != nil:
			return err
		default:
			x.streams = append(x.streams, s.CachedInfo())
		}
	}
	slices.SortFunc(x.streams, func(a, b *jetstream.StreamInfo) int {
		return cmp.Compare(a.Config.Name, b.Config.Name)
	})
	return nil
}
