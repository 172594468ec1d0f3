package cli_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/settlemq/settle/advise"
	"github.com/settlemq/settle/cli"
)

func TestAdviceComesFromFlagsInWordsAndAsJSON(t *testing.T) {
	flags := []string{"advise", "--value", "high", "--order", "none", "--rate", "300", "--broker-away", "refuse", "--broker", "kafka, rocketmq", "--db", "mysql", "--team", "platform", "--delay", "10ms"}
	code, out, errs := run(t, flags...)
	if code != cli.ExitOK || errs != "" || !strings.HasPrefix(out, "Take transactional messages, with RocketMQ and MySQL or MariaDB.\n") || !strings.Contains(out, "What can be lost, or late\n") {
		t.Errorf("exit %d, %q, %s", code, errs, out)
	}
	code, out, errs = run(t, append(flags, "--json")...)
	var a advise.Advice
	if err := json.Unmarshal([]byte(out), &a); err != nil || code != cli.ExitOK || errs != "" || a.Scheme != advise.TxMsg || a.Broker != advise.RocketMQ || a.Database != advise.MySQL {
		t.Errorf("exit %d, %q, %+v, %v", code, errs, a, err)
	}
}

func TestAdviceNamesDocumentsThatAreThere(t *testing.T) {
	for _, broker := range advise.Brokers() {
		for _, order := range []advise.Order{advise.OrderKey, advise.OrderNone} {
			a, err := advise.For(advise.Case{Order: order, Away: advise.AwayRefuse, Brokers: []string{broker}, Databases: []string{advise.MySQL}})
			if err != nil {
				t.Fatal(err)
			}
			for _, path := range a.Read {
				if _, err := os.Stat(filepath.Join("..", path)); err != nil {
					t.Error(err)
				}
			}
		}
	}
}

func TestAdviceWithoutATerminalSaysWhichFlagsAreMissing(t *testing.T) {
	for want, args := range map[string][]string{
		"say --value, --order, --rate; without a terminal nothing can be asked": nil,
		"say --rate": {"--value", "high", "--order", "key"},
		`--value: value is "much"; it is high or low`:         {"--value", "much"},
		`--order: order is "total"; it is key or none`:        {"--order", "total"},
		`--rate: rate is "many"; it is a number`:              {"--rate", "many"},
		`--rate: rate is "NaN"`:                               {"--rate", "NaN"},
		`--delay: delay is "soon"; it is a time such as 10ms`: {"--delay", "soon"},
		`--broker: broker is "redis"; there are kafka`:        {"--broker", "kafka,redis"},
		`--db: database is "oracle"; there are postgres`:      {"--db", "oracle"},
		`--team: team is "big"`:                               {"--team", "big"},
		`--broker-away: broker-away is "wait"`:                {"--broker-away", "wait"},
		"takes no argument":                                   {"please"},
	} {
		if code, out, errs := run(t, append([]string{"advise"}, args...)...); code != cli.ExitUsage || out != "" || !strings.Contains(errs, want) {
			t.Errorf("%v: exit %d, %q, %q", args, code, out, errs)
		}
	}
}

// terminal is a pseudo-terminal, and the end at which a person sits.
func terminal(t *testing.T) (program, person *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("SKIPPED: there are no pseudo-terminals: ", err)
	}
	t.Cleanup(func() { _ = person.Close() })
	if err := unix.IoctlSetPointerInt(int(person.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(person.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if program, err = os.OpenFile(fmt.Sprint("/dev/pts/", n), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = program.Close() })
	return program, person
}

func TestAPersonAtATerminalIsAskedUntilTheAnswersAreSome(t *testing.T) {
	t.Setenv("TERM", "xterm")
	for name, c := range map[string]struct {
		typed, says, told string
		code              int
	}{
		"all answers, one of them wrong, some left out": {"some\nlow\nnone\n\n100\n\n\n\n\n\n", "Take direct send with stored retries, with the embedded JetStream and SQLite.", `value is "some"; it is high or low`, cli.ExitOK},
		"an end before the last":                        {"high\n\x04", "", "the questions were not answered to their end; say --order", cli.ExitUsage},
	} {
		t.Run(name, func(t *testing.T) {
			program, person := terminal(t)
			if _, err := person.WriteString(c.typed); err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			told := make(chan string)
			go func() {
				var all []byte
				b := make([]byte, 4096)
				for {
					n, err := person.Read(b)
					all = append(all, b[:n]...)
					if err != nil {
						told <- string(all)
						return
					}
				}
			}()
			code := cli.Main(t.Context(), []string{"advise"}, cli.Streams{In: program, Out: &out, Err: program}, cli.Hooks{})
			_ = program.Close() // the other end is told
			if said := <-told; code != c.code || !strings.Contains(out.String(), c.says) || !strings.Contains(said, c.told) {
				t.Errorf("exit %d, %s\n%s", code, out.String(), said)
			}
		})
	}
}
