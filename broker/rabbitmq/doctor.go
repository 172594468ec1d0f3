package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/settlemq/settle/doctor"
)

// DoctorConfig says how a cluster is examined. The zero value works.
type DoctorConfig struct {
	// Topics are looked at whether they are there or not. Defaults to none, and
	// then to all that have a group of Settle's, which the management API tells.
	Topics []string
	// Others has all other such topics looked at beside Topics. Defaults to false.
	Others bool
	// Groups are consumer groups whose queues must be there. Defaults to none:
	// those are looked at that are bound.
	Groups []string
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

// NewDoctor returns a Doctor for the cluster at url (see Open), whose option
// management leads to what AMQP does not tell. It does no I/O.
func NewDoctor(url string, cfg DoctorConfig) *Doctor {
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
func durable() []string {
	return []string{"exchanges", "queue_type", "queue_members", "queue_policies"}
}

func (d *Doctor) examine(ctx context.Context, all bool) ([]doctor.Finding, error) {
	at, err := parseURL(d.url)
	if err != nil {
		return nil, err
	}
	cfg := Config{Timeout: d.cfg.Timeout, Name: "settle doctor"}.withDefaults()
	b := &Broker{cfg: cfg, at: at}
	s, err := newLink(b, "publishing").connect(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, errors.New(oneLine(err))
	}
	watching, stop := context.WithCancel(ctx)
	b.owned.Go(func() { s.watch(watching, func(bool, string) {}) })
	defer b.owned.Wait()
	defer stop()
	x := &examination{cfg: d.cfg, b: b, s: s, at: at, api: newManagement(at, d.cfg.Timeout)}
	x.gather(ctx, all)
	if ctx.Err() != nil {
		return nil, ctx.Err()
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
	return slices.Concat(x.serverChecks(), x.nodeChecks(), x.topicChecks(), x.queueChecks())
}

func (x *examination) run(c check) doctor.Finding {
	r, err := c.judge()
	if err != nil {
		r = doctor.Unseen(oneLine(err), x.toSee(err))
	}
	return r.Of(c.name, c.why)
}

// toSee is what lets the account look at what it did not see.
func (x *examination) toSee(err error) string {
	var refused *apiError
	switch {
	case errors.Is(err, errNoManagement):
		return "rabbitmq-plugins enable rabbitmq_management, and add management=http://host:15672 (or https) to the broker's URL"
	case errors.As(err, &refused) && refused.unauthorized():
		return fmt.Sprintf("rabbitmqctl set_user_tags %s administrator; monitoring and policymaker show all but operator policies", shellWord(x.at.user))
	}
	return "look again; if it stays, look at the management plugin of the node and its log"
}

func shellWord(text string) string { return "'" + strings.ReplaceAll(text, "'", "") + "'" }

func oneLine(err error) string { return strings.Join(strings.Fields(fmt.Sprint(err)), " ") }
