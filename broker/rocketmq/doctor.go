package rocketmq

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/settlemq/settle/broker/rocketmq/remoting"
	"github.com/settlemq/settle/doctor"
)

// DoctorConfig says how a cluster is examined. The zero value works.
type DoctorConfig struct {
	// Topics are looked at whether they are there or not. Defaults to none, and
	// then to all but the cluster's own and those of groups' failed messages.
	Topics []string
	// Others has all other topics looked at beside Topics. Defaults to false.
	Others bool
	// Groups are consumer groups that must be able to read. Defaults to none.
	Groups []string
	// KeepFor is how far back a consumer must be able to read: how long it may be
	// away, and how old what is replayed may be. Defaults to 7 days.
	KeepFor time.Duration
	// Timeout bounds each request. Defaults to 10 s.
	Timeout time.Duration
	// Dial makes connections. Defaults to TCP.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Clock is this machine's time, compared with the nodes'. Defaults to time.Now.
	Clock func() time.Time
}

// Doctor examines a cluster without changing it.
type Doctor struct {
	url string
	cfg DoctorConfig
}

var _ doctor.Checker = (*Doctor)(nil)

// NewDoctor returns a Doctor for the cluster at url (see Open). It does no I/O.
func NewDoctor(url string, cfg DoctorConfig) *Doctor {
	setDefault(&cfg.KeepFor, 7*24*time.Hour)
	setDefault(&cfg.Timeout, 10*time.Second)
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	return &Doctor{url: url, cfg: cfg}
}

// Check implements doctor.Checker.
func (d *Doctor) Check(ctx context.Context) ([]doctor.Finding, error) {
	return d.examine(ctx, true)
}

// Durability implements doctor.Checker.
func (d *Doctor) Durability(ctx context.Context) ([]doctor.Finding, error) {
	return d.examine(ctx, false)
}

// durable are the checks that Durability makes.
func durable() []string { return []string{"flush_disk", "replication"} }

func (d *Doctor) examine(ctx context.Context, all bool) ([]doctor.Finding, error) {
	at, err := parseURL(d.url)
	if err != nil {
		return nil, err
	}
	wire := remoting.New(remoting.Config{Dial: d.cfg.Dial, TLS: at.tls, AccessKey: at.accessKey, SecretKey: at.secret, Timeout: d.cfg.Timeout, DialTimeout: d.cfg.Timeout})
	defer wire.Close()
	x := &examination{cfg: d.cfg, at: at, wire: wire}
	err = x.gather(ctx, all)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, unreachable(err, at)
	}
	var found []doctor.Finding
	for _, c := range x.checks() {
		if all || slices.Contains(durable(), c.name) {
			found = append(found, x.run(c))
		}
	}
	return found, nil
}

// check is one thing that is judged, and what it matters for.
type check struct {
	name, why string
	judge     func() (doctor.Diagnosis, error)
}

func (x *examination) checks() []check {
	return slices.Concat(x.serverChecks(), x.copyChecks(), x.keepChecks(), x.topicChecks())
}

func (x *examination) run(c check) doctor.Finding {
	r, err := c.judge()
	if err != nil {
		r = doctor.Unseen(flat(err), x.toSee(err))
	}
	return r.Of(c.name, c.why)
}

// toSee is what lets the account look at what it did not see.
func (x *examination) toSee(err error) string {
	if remoting.IsRefusal(err, remoting.NoRight) {
		return "give this access key the right to look: admin: true of its entry in plain_acl.yml, or mqadmin updateAcl with a Cluster policy for Get"
	}
	return "look again; if it stays, look at that node and its log"
}

// unreachable says in one sentence why nothing was seen, and what mends it.
func unreachable(err error, at address) error {
	var n net.Error
	why := flat(err)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		why = "nothing listens there; start the name server, or put the right host and port into the URL"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &n) && n.Timeout():
		why = "no answer in time; look at the network, a firewall, or a server that was stopped"
		if at.tls != nil {
			why += "; or the server does not speak TLS, and tls=true is there"
		}
	case remoting.IsRefusal(err, remoting.NoRight):
		why = "the access key, or its secret, is refused: " + flat(err)
	}
	return fmt.Errorf("look at RocketMQ at %s: %s", strings.Join(at.servers, ","), why)
}

func flat(err error) string { return strings.Join(strings.Fields(fmt.Sprint(err)), " ") }
