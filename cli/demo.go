package cli

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/settlemq/settle/drill"
	"github.com/settlemq/settle/examples/shop"
)

// demo is one run of the demo command.
type demo struct {
	*app
	orders   int
	input    string
	skipBad  bool
	scenario string
	faults   string
	seed     uint64
	db       shopDatabase
	broker   shopBroker
	nodes    string
	dir      string
	keep     bool
	stay     bool
	report   string
	timeout  time.Duration
	asJSON   bool

	plays scenario
	named []string // the faults
	// cluster is what --nodes has found; nil without it.
	cluster *demoNodes
	all     bool // take the whole input
	screen  *screen
}

func (a *app) demoCommand() *cobra.Command {
	d := &demo{app: a}
	c := &cobra.Command{
		Use:   "demo",
		Short: "Run a shop, kill its processes while orders flow, and prove that nothing was lost",
		Long: `Starts the six services of a shop, its broker and the outside systems it calls
(payment provider, coupon system, carrier) as processes of their own, places
real orders, injects faults while they flow, repairs what only a person can,
waits until everything has settled, and checks every invariant on the facts of
all services, the broker's log and the outside systems' ledgers.

The scenarios:
` + scenarioHelp() + `
Some dead letters may be left for you to repair; the commands are printed.

Exit code 0: the proof holds. 1: an invariant is violated, or a fault never
happened (200 orders are enough for all of them). 2: wrong usage. 3: not
everything settled in time.`,
		Args: exactly(0, ""),
		RunE: func(c *cobra.Command, _ []string) error {
			if !c.Flags().Changed("seed") {
				d.seed = uint64(rand.Uint32())
			}
			d.all = d.input != "" && !c.Flags().Changed("orders")
			return d.run(c.Context())
		},
	}
	f := c.Flags()
	f.IntVar(&d.orders, "orders", 2000, "how many orders to place (with --input: all of the file unless you say)")
	f.StringVar(&d.input, "input", "", "a CSV file with the columns customer_id, date, quantity, amount (default: real orders inside the program)")
	f.BoolVar(&d.skipBad, "skip-bad", false, "pass over bad rows of the input and count them")
	f.StringVar(&d.scenario, "scenario", everything, "what kind of day it is; see above")
	f.StringVar(&d.faults, "faults", "", "all, none, or names with commas between: see the error for a wrong one (default: those of the scenario)")
	f.Uint64Var(&d.seed, "seed", 0, "decides which fault hits what and when (default: by chance, printed)")
	f.StringVar(&d.db.text, "db", "", databaseUsage)
	f.StringVar(&d.broker.text, "broker", "", brokerUsage)
	f.StringVar(&d.nodes, "nodes", "", "for a broker of three nodes or more: a program that is called with status, and with kill, stop, start, pause and resume and a node's\n"+
		"name, as scripts/services is; adds broker-node-kill, leader-switch and broker-pause to the faults")
	f.StringVar(&d.dir, "dir", "", "an empty directory for databases, broker and logs, kept afterwards (default: a temporary one, removed if the proof holds and no dead letter is left)")
	f.BoolVar(&d.keep, "keep", false, "keep the directory and print how to look around in it")
	f.BoolVar(&d.stay, "stay", false, "keep the shop running afterwards, until Ctrl-C, for exploring it by commands")
	f.StringVar(&d.report, "report", "", "write an HTML page with the proof, drawings and trails to this file")
	f.DurationVar(&d.timeout, "timeout", 10*time.Minute, "how long everything may take until it has settled")
	f.BoolVar(&d.asJSON, "json", false, "print the proof as one JSON object; everything else goes to stderr")
	return c
}

func (d *demo) run(ctx context.Context) error {
	orders, err := d.prepare()
	if err != nil {
		return err
	}
	out := d.Out
	if d.asJSON {
		out = d.Err
	}
	d.screen = newScreen(out)
	defer d.screen.end()
	if err := d.findNodes(ctx); err != nil {
		return err
	}
	dir, remove, err := d.makeDir()
	if err != nil {
		return err
	}
	err = d.pageable()
	for _, use := range []func(context.Context, string) error{d.broker.use, d.db.use} {
		if err == nil {
			err = use(ctx, dir)
		}
	}
	if err != nil {
		remove()
		return err
	}
	report, err := d.drill(ctx, dir, orders)
	d.screen.end()
	switch {
	case ctx.Err() != nil:
		remove()
		return unreachablef("interrupted; all processes have ended")
	case report == nil:
		return unreachablef("%w; databases and logs are kept in %s", err, dir)
	}
	end := d.verdict(report, err)
	if perr := d.print(report); perr != nil {
		end = perr
	}
	d.showTarget(report)
	if perr := d.page(ctx, dir, report); perr != nil {
		end = errors.Join(end, perr)
	}
	left := len(report.Letters) > 0 && end == nil
	switch {
	case left:
		d.showLeft(dir, report.Letters)
		d.showSchemas(dir)
	case d.keep || d.dir != "" || d.stay || end != nil: // what did not hold is there to be looked at
		d.showAround(dir)
		d.showSchemas(dir)
	default:
		remove()
	}
	if d.stay && end == nil {
		return d.goOn(ctx, dir)
	}
	return end
}

// goOn keeps the shop running until ctx is done.
func (d *demo) goOn(ctx context.Context, dir string) error {
	file, err := readConfig(filepath.Join(dir, shopFile))
	if err != nil {
		return err
	}
	return d.runShop(ctx, dir, "127.0.0.1:0", file)
}

// verdict turns what a drill found into the command's end.
func (d *demo) verdict(r *drill.Report, err error) error {
	switch {
	case errors.Is(err, drill.ErrUnsettled):
		return unreachablef("not settled within %s", d.timeout)
	case err != nil:
		return unreachablef("%w", err)
	case len(r.Failures()) > 0 || !r.Settled():
		return finding(errors.New("the proof fails" + tooFew(r)))
	}
	return nil
}

// enoughOrders give every fault something to hit.
const enoughOrders = 200

// tooFew says what may be done about faults that never happened in a short run.
func tooFew(r *drill.Report) string {
	missed := slices.ContainsFunc(r.Faults, func(f drill.FaultCount) bool { return f.Times == 0 })
	if !missed || r.Orders.Accepted >= enoughOrders {
		return ""
	}
	return fmt.Sprintf("; with so few orders a fault may find nothing to hit: take --orders %d or more, or name fewer faults with --faults", enoughOrders)
}

// prepare checks everything that is asked for before anything starts.
func (d *demo) prepare() ([]shop.FeedOrder, error) {
	if d.orders < 1 {
		return nil, usagef("--orders is %d; it must be 1 or more", d.orders)
	}
	if d.timeout <= 0 {
		return nil, usagef("--timeout is %s; it must be more than 0", d.timeout)
	}
	if err := errors.Join(d.broker.check(), d.db.check()); err != nil {
		return nil, err
	}
	var err error
	if d.plays, err = findScenario(d.scenario); err != nil {
		return nil, err
	}
	d.named = d.plays.faults
	if d.faults != "" {
		if d.named, err = drill.ParseFaults(d.faults); err != nil {
			return nil, usagef("%w", err)
		}
	}
	if err := errors.Join(d.reachable(), d.nodesWanted()); err != nil {
		return nil, err
	}
	if d.skipBad && d.input == "" {
		return nil, usagef("--skip-bad is for a file of your own; name it with --input")
	}
	feed, err := d.readFeed()
	if err != nil {
		return nil, usagef("%w", err)
	}
	if feed.Skipped > 0 {
		_, _ = fmt.Fprintf(d.Err, "%s of %s passed over\n", count(feed.Skipped, "bad row", "bad rows"), d.input)
	}
	if d.all {
		return feed.Orders, nil
	}
	return feed.Take(d.orders), nil
}

func (d *demo) readFeed() (shop.Feed, error) {
	if d.input == "" {
		return shop.SampleFeed()
	}
	return shop.OpenFeed(d.input, shop.FeedConfig{SkipBad: d.skipBad})
}

// makeDir returns an empty directory, and what to do with it in the end.
func (d *demo) makeDir() (string, func(), error) {
	if d.dir == "" {
		dir, err := os.MkdirTemp("", "settle-demo-")
		if err != nil {
			return "", nil, unreachablef("make directory: %w", err)
		}
		if d.keep {
			return dir, func() {}, nil
		}
		return dir, func() { d.forget(dir) }, nil
	}
	dir, err := filepath.Abs(d.dir)
	if err != nil {
		return "", nil, usagef("--dir %s: %w", d.dir, err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", nil, usagef("--dir %s: %w", d.dir, err)
	}
	there, err := os.ReadDir(dir)
	if err != nil {
		return "", nil, usagef("--dir %s: %w", d.dir, err)
	}
	if len(there) > 0 {
		return "", nil, usagef("--dir %s is in use: it holds %s; name an empty directory, or go on with what is there by settle shop --dir %s", d.dir, there[0].Name(), d.dir)
	}
	return dir, func() {}, nil
}

// forget removes a directory, and what its shop has in a database and on a
// broker.
func (d *demo) forget(dir string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := shop.DropBroker(ctx, dir); err != nil {
		d.screen.say("%v; %s is kept, it says where they are", d.broker.hide(err), dir)
		return
	}
	if err := shop.DropDatabase(ctx, dir); err != nil {
		d.screen.say("%v; %s is kept, it says where they are", d.db.hide(err), dir)
		return
	}
	_ = os.RemoveAll(dir)
}

func (d *demo) print(r *drill.Report) error {
	if d.asJSON {
		return printJSON(d.Out, r)
	}
	return r.Print(d.Out)
}

// showTarget says what a run under all faults was to take, and what it took.
func (d *demo) showTarget(r *drill.Report) {
	target, ok := targetTime(r.Orders.Accepted)
	if !ok || len(d.named) < len(drill.FaultNames()) || d.cluster != nil {
		return
	}
	took := time.Duration(r.Duration * float64(time.Second)).Round(100 * time.Millisecond)
	verdict := "met"
	if took > target {
		verdict = "missed"
	}
	d.screen.say("It took %s; the aim for so many orders under all faults on two cores is %s: %s.", took, target, verdict)
}

func (d *demo) showAround(dir string) {
	d.screen.say("\nEverything is kept in %s. Look around:\n  %[2]s shop --dir %[1]s            go on with this shop\n  %[2]s trail --dir %[1]s ID        the way of an order or event\n  %[2]s dead list --dir %[1]s --state any\n  sqlite3 %[1]s/"+drill.FactsFile+"     the facts of all services side by side", dir, self())
}

// showSchemas says what is left in a database and on a broker, and how it is
// removed.
func (d *demo) showSchemas(dir string) {
	use, err := shop.Broker(dir)
	switch {
	case err != nil || use.URL == "":
	case d.broker.nats():
		d.screen.say("The events are in the topic %s; nats stream ls shows its stream, and nats stream rm removes it.", use.Topic())
	case d.broker.rabbit():
		d.screen.say("The events are in exchanges and queues whose names begin with %s; rabbitmqadmin delete queue name=… and rabbitmqadmin delete exchange name=… remove them.", use.Prefix)
	case d.broker.rocket():
		d.screen.say("The events are in the topic %s, read by groups whose names begin with %s; mqadmin deleteTopic and mqadmin deleteSubGroup remove them.", use.Topic(), use.Prefix)
	default:
		d.screen.say("The events are in the topic %s, read by groups whose names begin with %s; kafka-topics.sh --delete --topic %[1]s and kafka-consumer-groups.sh --delete remove them.", use.Topic(), use.Prefix)
	}
	databases, err := shop.Databases(dir)
	if err != nil || d.db.url == "" {
		return
	}
	d.screen.say("The services' tables are in the database; %s removes them.", shop.DropStatements(databases))
}

// showLeft names the dead letters that were left on purpose and says how to
// repair one, to whoever wants to try.
func (d *demo) showLeft(dir string, left []drill.Letter) {
	say := d.screen.say
	say("\n%s left for you: the coupon system did not answer in time.", count(len(left), "dead letter is", "dead letters are"))
	for _, l := range left {
		say("  %s  %s of order %s: %s", l.ID, l.EventType, l.Key, legible(l.Reason))
	}
	if d.stay {
		say("Look at one, repair it, see the proof, in another terminal:")
	} else {
		say("Look at one, repair it, see the proof:")
	}
	for _, command := range d.repairCommands(dir, left) {
		say("  %s", command)
	}
	say("Everything is in %s; remove it when you have seen enough.", dir)
}

// repairCommands are what to type about the first of the letters that were
// left.
func (d *demo) repairCommands(dir string, left []drill.Letter) []string {
	if len(left) == 0 {
		return nil
	}
	l, at, dir := left[0], self(), shellWords([]string{dir})
	commands := []string{
		fmt.Sprintf("%s dead show %s --dir %s", at, l.ID, dir),
		fmt.Sprintf("%s dead replay %s --dir %s --reason 'the coupon system answers again'", at, l.ID, dir),
		fmt.Sprintf("%s trail %s --dir %s", at, l.Key, dir),
	}
	if !d.stay {
		goOn := fmt.Sprintf("%s shop --dir %s --listen 127.0.0.1:0 &     # the shop goes on; the coupon system answers again", at, dir)
		commands = append([]string{goOn}, commands...)
	}
	return commands
}

// self is how to call this program again.
func self() string {
	path, err := os.Executable()
	if err != nil || strings.Contains(path, "go-build") {
		return "go run ./cmd/settle"
	}
	return filepath.Base(path)
}
