package main

import (
	"errors"
	"flag"
	"io"
	"os"
	"regexp"
	"strings"
)

// config is what the flags say.
type config struct {
	db       string
	events   int
	rounds   int
	rate     int
	seconds  int
	only     *regexp.Regexp
	scene    *regexp.Regexp
	jsonPath string
	document string
}

// keys is how many keys the events have in turn; one of them is poisoned.
const keys = 10_000

const usage = `Usage: go run -C bench . [flags]

Measures Settle's relay and consumer beside other ways to do the same, on one PostgreSQL, and prints tables.
A database settle_bench_* is made and dropped. The role must be a superuser: logical replication and the delay
of commits ask for it. Nothing else should use the server, or its work is counted too; bench/run starts one.

`

func parse(args []string, out io.Writer) (config, error) {
	var c config
	var only, scene string
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(out)
	f.StringVar(&c.db, "db", os.Getenv("SETTLE_TEST_POSTGRES"), "`URL` of the server; by default what SETTLE_TEST_POSTGRES holds")
	f.IntVar(&c.events, "events", 100_000, "`number` of events in a backlog; the scenes have half of it, slow ways a part")
	f.IntVar(&c.rounds, "rounds", 3, "`number` of rounds; figures are medians")
	f.IntVar(&c.rate, "rate", 2000, "events per `second` in the steady state")
	f.IntVar(&c.seconds, "seconds", 4, "`seconds` of steady state")
	f.StringVar(&only, "only", "", "measure only ways whose name the `pattern` matches; the raw limit is always measured")
	f.StringVar(&scene, "scene", "", "measure only scenes whose name the `pattern` matches: "+strings.Join(sceneNames, ", "))
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
	case c.db == "":
		err = errors.New("no server is named: give --db, or SETTLE_TEST_POSTGRES what `scripts/services up postgres` prints")
	case c.events < 1000 || c.rounds < 1 || c.rate < 1 || c.seconds < 1:
		err = errors.New("want at least 1,000 events, one round, one event per second, one second")
	default:
		c.only, err = regexp.Compile(only)
		if err == nil {
			c.scene, err = regexp.Compile(scene)
		}
	}
	return c, err
}

// command is how the run was started, without a password; bench/run says what
// it was called.
func command(args []string) string {
	shown := []string{"go run -C bench ."}
	if as := os.Getenv("SETTLE_BENCH_COMMAND"); as != "" {
		shown[0] = as
	}
	for i := 0; i < len(args); i++ {
		if name := strings.TrimLeft(args[i], "-"); strings.HasPrefix(name, "db") {
			if name == "db" {
				i++
			}
			continue
		}
		shown = append(shown, args[i])
	}
	return strings.Join(shown, " ")
}

func (c config) wants(name string) bool { return name == rawName || c.only.MatchString(name) }
