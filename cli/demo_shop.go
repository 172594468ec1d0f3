package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/drill"
	"github.com/settlemq/settle/examples/shop"
	"github.com/settlemq/settle/examples/shop/outside"
)

// demoShop is the shop that a drill breaks: its processes, and what the drill
// reads and asks of it.
type demoShop struct {
	d      *demo
	dir    string
	broker demoBroker
	entry  string
	client *orderClient
	// as shop.Services
	services []*drill.Service
	watch    *drill.Watch
	close    []func() error
	standIns atomic.Int32
}

// drill runs the shop in dir under faults.
func (d *demo) drill(ctx context.Context, dir string, orders []shop.FeedOrder) (*drill.Report, error) {
	lock, err := shop.LockDir(dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = lock.Close() }()
	plot, err := d.plays.write(orders, d.named, d.seed)
	if err != nil {
		return nil, err
	}
	window := paymentWindow(len(orders), d.broker.url != "", d.cluster != nil, d.db.isMySQL())
	if err := os.WriteFile(filepath.Join(dir, shopFile), []byte(drillFile(window)), 0o600); err != nil {
		return nil, err
	}
	if err := shop.Stock(ctx, dir, plot.stock...); err != nil {
		return nil, err
	}
	faults := d.placeable(plot.idle)
	s, err := d.open(ctx, dir)
	if err != nil {
		return nil, d.broker.hide(err)
	}
	defer s.end()
	d.sayBroker(s.broker)
	d.screen.say("A shop of %d processes in %s: %s, scenario %s, seed %d. Times are scaled for the drill: leases of %s, four attempts within a second, %s to pay (%s).",
		s.processes(), dir, count(len(orders), "order", "orders"), d.plays.name, d.seed, drillLease, window, shopFile)
	return drill.Run(ctx, drill.Config{
		Dir: dir, Seed: d.seed, Faults: faults, Requests: plot.requests, Poisoned: plot.poisoned, Stuck: plot.stuck, Leave: plot.leave,
		Timeout: d.timeout, Say: d.screen.say, Show: d.screen.show,
	}, s.system())
}

// placeable leaves out the faults for which nothing is fit, unless they were
// asked for by name: the report then says that they never happened.
func (d *demo) placeable(idle []string) []string {
	if d.faults != "" && d.faults != "all" || len(idle) == 0 {
		return d.named
	}
	d.screen.say("Left out, since none of these orders is fit for it: %s.", strings.Join(idle, ", "))
	return slices.DeleteFunc(slices.Clone(d.named), func(name string) bool { return slices.Contains(idle, name) })
}

// open makes what the drill holds itself; no process is started yet.
func (d *demo) open(ctx context.Context, dir string) (*demoShop, error) {
	s := &demoShop{d: d, dir: dir}
	if err := s.connect(ctx); err != nil {
		s.end()
		return nil, err
	}
	return s, nil
}

func (s *demoShop) connect(ctx context.Context) error {
	if err := os.MkdirAll(filepath.Join(s.dir, "logs"), 0o700); err != nil {
		return err
	}
	brokerPort, entryPort, err := freePorts()
	if err != nil {
		return err
	}
	if s.broker, err = s.d.openBroker(s.dir, brokerPort); err != nil {
		return err
	}
	forget, err := s.broker.keep(ctx)
	s.close = append(s.close, forget, s.broker.tap.Close)
	if err != nil {
		return err
	}
	s.entry = fmt.Sprintf("127.0.0.1:%d", entryPort)
	s.client = newOrderClient(s.entry)
	if s.services, s.watch, err = openServices(s.dir); err != nil {
		return err
	}
	s.close = append(s.close, func() error { closeServices(s.services); return nil })
	return nil
}

func (s *demoShop) end() {
	for _, c := range s.close {
		_ = c()
	}
}

// child is a process of one role that finds the broker by env. It is the only
// one of its instance, if it has that.
func (s *demoShop) child(role, log, instance string, env []string, ready func(context.Context) error) *drill.Child {
	return drill.NewChild(drill.ChildConfig{
		Name:  role,
		Args:  []string{"role", role, "--dir", s.dir, "--listen", s.entry, "--instance", instance},
		Env:   env,
		Log:   filepath.Join(s.dir, "logs", log+".log"),
		Ready: ready,
	})
}

func (s *demoShop) role(name string, ready func(context.Context) error) *drill.Child {
	return s.child(name, name, name, s.broker.env, ready)
}

// members are the services' processes: order and inventory have a relay and a
// consumer that die separately, the others one process for both.
func (s *demoShop) members() []drill.Member {
	var all []drill.Member
	for _, m := range shop.Services() {
		relay, consumer := shop.RelayRole(m.Name), shop.ConsumerRole(m.Name)
		if m.Name == "order" || m.Name == "inventory" {
			all = append(all, drill.Member{Name: m.Name, Relay: s.role(relay, nil), Consumer: s.role(consumer, nil)})
			continue
		}
		both := s.role(relay+","+consumer, nil)
		all = append(all, drill.Member{Name: m.Name, Relay: both, Consumer: both})
	}
	return all
}

// outsiders are the processes of the systems that belong to others.
func (s *demoShop) outsiders() []*drill.Child {
	var all []*drill.Child
	for _, system := range outside.Systems() {
		all = append(all, s.role(system, func(ctx context.Context) error {
			_, err := outside.Inspect(ctx, s.dir, system)
			return err
		}))
	}
	return all
}

// processes counts them all: the entry and a broker of its own, too.
func (s *demoShop) processes() int {
	n := 1 + len(outside.Systems())
	if s.broker.own != nil {
		n++
	}
	for _, m := range s.members() {
		n++
		if m.Relay != m.Consumer {
			n++
		}
	}
	return n
}

func (s *demoShop) system() drill.System {
	var broker *drill.Child
	if s.broker.own != nil {
		broker = s.child(roleBroker, roleBroker, "", s.broker.own, s.brokerReady)
	}
	var cluster drill.Cluster
	if s.d.cluster != nil {
		s.d.cluster.tap, s.d.cluster.topic = s.broker.tap, s.broker.topic
		cluster = s.d.cluster
	}
	return drill.System{
		Broker:   broker,
		Cluster:  cluster,
		Entry:    s.role(shop.RoleOrderAPI, s.client.ready),
		Services: s.members(),
		Outside:  s.outsiders(),
		StandIn: func(c *drill.Child) *drill.Child {
			log := fmt.Sprintf("%s-stand-in-%d", c.Name(), s.standIns.Add(1))
			return s.child(c.Name(), log, "", s.broker.env, nil)
		},
		Proxy: s.broker.proxy, Tap: s.broker.tap, Unplaced: !s.broker.tap.Places(), Topic: s.broker.topic, Groups: len(s.services), LeaseTTL: drillLease,
		Place: s.client.place, Act: s.client.act, Misbehave: s.misbehave, Misbehaved: s.misbehaved,
		State: s.watch.State, Letters: s.watch.Letters, Repair: s.repair, Export: s.export, Counters: s.counters,
	}
}

func (s *demoShop) misbehave(ctx context.Context, system string, m drill.Misbehaviour) error {
	_, err := outside.Misbehave(ctx, s.dir, system, outside.Misbehaviour{Mode: m.Mode, Share: m.Share, Delay: m.Delay, For: m.For, Customers: m.Customers})
	return err
}

func (s *demoShop) misbehaved(ctx context.Context, system string) (map[string]int64, error) {
	standing, err := outside.Inspect(ctx, s.dir, system)
	return standing.Misbehaved, err
}

func (s *demoShop) brokerReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return s.broker.tap.Ready(ctx)
}

func (s *demoShop) export(ctx context.Context, f *drill.Facts) error {
	consumes := map[string][]string{}
	for i, service := range shop.Services() {
		if err := s.services[i].Export(ctx, f, service.Facts); err != nil {
			return err
		}
		consumes[service.Name] = service.Handles
	}
	for _, system := range outside.Systems() {
		if err := f.CopyFile(ctx, system, outside.LedgerPath(s.dir, system), outside.Facts()); err != nil {
			return err
		}
	}
	return f.AddSubscriptions(ctx, consumes)
}

func (s *demoShop) counters() (drill.Counters, error) {
	all, err := shop.ReadStats(statsDir(s.dir))
	var sum drill.Counters
	for _, c := range all {
		sum.Received += c.Received
		sum.Duplicate += c.Duplicate
		sum.Ignored += c.Ignored
	}
	return sum, err
}

// repair does what a person would do about dead letters, with the commands that
// a person would use, and shows them. Of several orders for the article that
// comes late the last is given up, so that a compensation is part of the proof.
func (s *demoShop) repair(ctx context.Context, letters []drill.Letter) error {
	var foreign, known, late []string
	for _, l := range letters {
		switch {
		case l.Class == string(settle.ClassDecode):
			foreign = append(foreign, l.ID)
		case strings.Contains(l.Reason, poisonSKU):
			late = append(late, l.ID)
		default:
			known = append(known, l.ID)
		}
	}
	commands := [][]string{{"dead", "list"}}
	if n := len(late) - 1; n > 0 {
		commands = append(commands, []string{"dead", "compensate", late[n], "--reason", "the customer does not wait any longer", "--by", "demo"})
		late = late[:n]
	}
	if len(late) > 0 {
		commands = append(commands, []string{"shop", "stock", poisonSKU + "=1000"})
		known = append(late, known...)
	}
	if len(foreign) > 0 {
		commands = append(commands, slices.Concat([]string{"dead", "discard"}, foreign, []string{"--reason", "cut off by a foreign producer, carries nothing", "--by", "demo"}))
	}
	if len(known) > 0 {
		commands = append(commands, slices.Concat([]string{"dead", "replay"}, known, []string{"--reason", "the causes are cured", "--by", "demo"}))
	}
	for _, words := range commands {
		if err := s.settle(ctx, words...); err != nil {
			return err
		}
	}
	return nil
}

// settle runs a command line of this program as a process of its own and shows
// what it prints. One that was killed is run again, as a person would; what
// the first one had done is refused then, which is no error.
func (s *demoShop) settle(ctx context.Context, args ...string) error {
	args = append(args, "--dir", s.dir)
	s.d.screen.say("\n$ settle %s", shellWords(args))
	for times := range 3 {
		out, err := drill.Command(ctx, args...)
		if len(out) > 0 {
			s.d.screen.say("%s", out)
		}
		var exit *exec.ExitError
		switch {
		case errors.Is(err, drill.ErrKilled):
		case times > 0 && errors.As(err, &exit) && exit.ExitCode() == ExitFinding:
			return nil
		default:
			return err
		}
		s.d.screen.say("(killed; once more)")
	}
	return fmt.Errorf("settle %s: killed again and again", args[0])
}
