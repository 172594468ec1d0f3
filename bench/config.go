package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"time"
)

// config is what the flags say.
type config struct {
	servers []address
	// brokers are measured in place of the databases; events are drained from
	// the only one of servers then.
	brokers  []brokerAddress
	events   int
	rounds   int
	rate     int
	seconds  int
	within   time.Duration
	only     *regexp.Regexp
	scene    *regexp.Regexp
	jsonPath string
	document string
}

// address is a server to measure on.
type address struct {
	engine engine
	url    string
}

// brokerAddress is a broker to measure.
type brokerAddress struct {
	target target
	url    string
}

// keys is how many keys the events have in turn; one of them is poisoned.
const keys = 10_000

const usage = `Usage: go run -C bench . [flags]

Measures Settle's relay and consumer, and with --broker its adapters of brokers, beside other ways to do the same, on PostgreSQL and on MariaDB, one after the
other, and prints tables. Databases settle_bench_* are made and dropped. The role must be a superuser: logical
replication and the delay of commits ask for it, and on MariaDB a user is made for the ways that are measured, and
settings of the server are changed while it runs. Nothing else should use the servers, or its work is counted too;
bench/run starts some.

`

func parse(args []string, out io.Writer) (config, error) {
	var c config
	var db, brokers, only, scene string
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(out)
	f.StringVar(&db, "db", "", "`databases`, with commas between: "+strings.Join(engineNames(), ", ")+", each the server whose URL SETTLE_TEST_POSTGRES or SETTLE_TEST_MYSQL holds, or a URL; by default all that are named there")
	f.StringVar(&brokers, "broker", "", "measure these `brokers` in place of databases, with commas between: "+strings.Join(targetNames(), ", ")+", each the server whose URL SETTLE_TEST_KAFKA or SETTLE_TEST_RABBITMQ holds, or a URL; --db then names the PostgreSQL that events are drained from")
	f.IntVar(&c.events, "events", 100_000, "`number` of events in a backlog; slow ways carry a part of it")
	f.IntVar(&c.rounds, "rounds", 3, "`number` of rounds; figures are medians")
	f.IntVar(&c.rate, "rate", 2000, "events per `second` in the steady state")
	f.IntVar(&c.seconds, "seconds", 4, "`seconds` of steady state")
	f.DurationVar(&c.within, "within", 11*time.Minute, "begin no round of the brokers that would end after this `time`")
	f.StringVar(&only, "only", "", "measure only ways whose name the `pattern` matches; the raw limit is always measured")
	f.StringVar(&scene, "scene", "", "measure only scenes whose name the `pattern` matches: "+strings.Join(sceneNames, ", ")+"; of brokers: "+strings.Join(brokerScenes, ", "))
	f.StringVar(&c.jsonPath, "json", "", "write the report as JSON to a `file`, - for standard output in place of the tables")
	f.StringVar(&c.document, "write", "", "write the tables as Markdown to a `file`")
	f.Usage = func() {
		_, _ = io.WriteString(out, usage)
		f.PrintDefaults()
	}
	if err := f.Parse(args); err != nil {
		return c, err
	}
	var err error
	switch {
	case f.NArg() > 0:
		err = errors.New("there are no arguments, only flags: " + f.Arg(0))
	case c.events < 1000 || c.rounds < 1 || c.rate < 1 || c.seconds < 1:
		err = errors.New("want at least 1,000 events, one round, one event per second, one second")
	default:
		if c.brokers, err = brokerAddresses(brokers); err == nil && len(c.brokers) > 0 && db == "" {
			db = drainEngine
		}
		if err == nil {
			c.servers, err = addresses(db)
		}
		if err == nil && len(c.brokers) > 0 && (len(c.servers) != 1 || c.servers[0].engine.name != drainEngine) {
			err = errors.New("with --broker, --db names one PostgreSQL, that events are drained from")
		}
		if err == nil {
			c.only, err = regexp.Compile(only)
		}
		if err == nil {
			c.scene, err = regexp.Compile(scene)
		}
	}
	return c, err
}

// addresses reads what --db says.
func addresses(db string) (all []address, err error) {
	for _, s := range strings.Split(db, ",") {
		if s == "" {
			continue
		}
		e, found := engineOf(s)
		a := address{e, s}
		if s == e.name {
			a.url = os.Getenv(e.env)
		}
		switch {
		case !found:
			return nil, fmt.Errorf("--db names no database that is measured; there are %s, or a URL of one", strings.Join(engineNames(), ", "))
		case a.url == "":
			return nil, fmt.Errorf("no server of %s is named: give its URL, or %s what `scripts/services up %s` prints", s, e.env, e.service)
		}
		all = append(all, a)
	}
	if db != "" {
		return all, nil
	}
	for _, e := range engines() {
		if at := os.Getenv(e.env); at != "" {
			all = append(all, address{e, at})
		}
	}
	if len(all) == 0 {
		err = errors.New("no server is named: give --db, or SETTLE_TEST_POSTGRES and SETTLE_TEST_MYSQL what `scripts/services up postgres mariadb` prints")
	}
	return all, err
}

// brokerAddresses reads what --broker says.
func brokerAddresses(brokers string) (all []brokerAddress, err error) {
	for s := range strings.SplitSeq(brokers, ",") {
		if s == "" {
			continue
		}
		t, found := targetOf(s)
		a := brokerAddress{t, s}
		if s == t.name {
			a.url = os.Getenv(t.env)
		}
		switch {
		case !found:
			return nil, fmt.Errorf("--broker names no broker that is measured; there are %s, or a URL of one", strings.Join(targetNames(), ", "))
		case a.url == "":
			return nil, fmt.Errorf("no server of %s is named: give its URL, or %s what `scripts/services up %s` prints", s, t.env, t.service)
		}
		all = append(all, a)
	}
	return all, nil
}

// command is how the run was started, without the password of a URL; bench/run
// says what it was called.
func command(args []string) string {
	shown := []string{"go run -C bench ."}
	if as := os.Getenv("SETTLE_BENCH_COMMAND"); as != "" {
		shown[0] = as
	}
	for i := 0; i < len(args); i++ {
		name, value, joined := strings.Cut(strings.TrimLeft(args[i], "-"), "=")
		server := name == "db" || name == "broker"
		if !joined && server && i+1 < len(args) {
			value = args[i+1]
		}
		if server && strings.Contains(value, "://") {
			if !joined {
				i++
			}
			continue
		}
		shown = append(shown, args[i])
	}
	return strings.Join(shown, " ")
}

func (c config) wants(name string) bool { return name == rawName || c.only.MatchString(name) }
