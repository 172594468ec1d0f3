package kafka

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/settlemq/settle/doctor"
)

// DoctorConfig says how a cluster is examined. The zero value works.
type DoctorConfig struct {
	// Topics are looked at whether they are there or not. Defaults to none, and
	// then to all that the account may see, without those whose name begins with
	// _ and the cluster's own.
	Topics []string
	// Others has all other topics looked at beside Topics. Defaults to false.
	Others bool
	// KeepFor is how far back a consumer must be able to read: how long it may be
	// away, and how old what is replayed may be. Defaults to 7 days.
	KeepFor time.Duration
	// Timeout bounds each request. Defaults to 10 s.
	Timeout time.Duration
	// Clock is this machine's time, compared with the cluster's. Defaults to
	// time.Now.
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
	return d.examine(ctx, (*examination).gatherRest, (*examination).checks)
}

// Durability implements doctor.Checker.
func (d *Doctor) Durability(ctx context.Context) ([]doctor.Finding, error) {
	nothing := func(*examination, context.Context, *kgo.Client) {}
	return d.examine(ctx, nothing, func(x *examination) []check {
		return slices.DeleteFunc(x.checks(), func(c check) bool {
			return !slices.Contains([]string{"new_topics", "replication_factor", "min_insync_replicas", "unclean_leader_election"}, c.name)
		})
	})
}

// examine looks at topics and settings, and then at what more is asked for.
func (d *Doctor) examine(ctx context.Context, more func(*examination, context.Context, *kgo.Client), checks func(*examination) []check) ([]doctor.Finding, error) {
	at, err := parseURL(d.url)
	if err != nil {
		return nil, err
	}
	cl, err := kgo.NewClient(d.connecting(at)...)
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	x := &examination{cfg: d.cfg, tools: toolsOf(d.url, at)}
	err = x.gather(ctx, cl)
	if err == nil {
		more(x, ctx, cl)
	}
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, unreachable(err, d.url, at)
	}
	var all []doctor.Finding
	for _, c := range checks(x) {
		all = append(all, x.run(c))
	}
	return all, nil
}

// connecting asks for a sign of life soon, since nobody waits for a cluster
// that is away.
func (d *Doctor) connecting(at address) []kgo.Opt {
	o := []kgo.Opt{
		kgo.SeedBrokers(at.hosts...), kgo.ClientID("settle-doctor"), kgo.RequestRetries(2), kgo.DialTimeout(d.cfg.Timeout), kgo.RequestTimeoutOverhead(d.cfg.Timeout),
		kgo.RetryBackoffFn(func(int) time.Duration { return retryWait }),
	}
	if at.sasl != nil {
		o = append(o, kgo.SASL(at.sasl))
	}
	if at.tls != nil {
		o = append(o, kgo.DialTLSConfig(at.tls))
	}
	return o
}

// check is one thing that is judged, and what it matters for.
type check struct {
	name, why string
	judge     func() (doctor.Diagnosis, error)
}

func (x *examination) checks() []check {
	return slices.Concat(x.nodeChecks(), x.copyChecks(), x.topicChecks(), x.rightChecks())
}

func (x *examination) run(c check) doctor.Finding {
	r, err := c.judge()
	if err != nil {
		r = doctor.Unseen(oneSentence(err), x.tools.toSee(err))
	}
	return r.Of(c.name, c.why)
}

// oneSentence is what a person can read of an error of the cluster.
func oneSentence(err error) string {
	var of *kerr.Error
	if errors.As(err, &of) {
		return strings.TrimSuffix(of.Description, ".") + " (" + of.Message + ")"
	}
	return oneLine(err)
}
