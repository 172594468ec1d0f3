package cli_test

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/drill"
	"github.com/settlemq/settle/examples/shop"
	"github.com/settlemq/settle/internal/services"
)

// rabbitForTest is a server that others use, too.
func rabbitForTest(t *testing.T) string {
	t.Helper()
	if os.Getenv("SETTLE_TEST_ALL") == "" {
		t.Skip("a demo on RabbitMQ waits longer than its customers do: set SETTLE_TEST_ALL=1")
	}
	return services.URL(t, "SETTLE_TEST_RABBITMQ", "rabbitmq")
}

func TestADemoOnRabbitMQLeavesTheServerAsItWas(t *testing.T) {
	at := rabbitForTest(t)
	code, out, errs := output(t, "demo", "--broker", at, "--orders", "60", "--seed", "1", "--json", "--timeout", "4m",
		"--faults", "relay-kill,consumer-kill,lost-ack,duplicate,broker-cut")
	r := proofOf(t, code, out, errs)
	topic := topicOf(errs)
	if r.Orders.Accepted != 60 || r.Deliveries.Duplicate == 0 || topic == "" {
		t.Errorf("%+v, %s", r, errs)
	}
	if left := leftOnRabbit(t, at, strings.TrimSuffix(topic, settle.DefaultTopic)); len(left) > 0 {
		t.Errorf("%v are left", left)
	}
}

func portAbove(t *testing.T, u *url.URL) string {
	t.Helper()
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		t.Fatal(err)
	}
	return strconv.Itoa(port + 1)
}

// leftOnRabbit lists queues and exchanges by the management API, which the tests'
// server has one port higher.
func leftOnRabbit(t *testing.T, at, prefix string) (names []string) {
	t.Helper()
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal("the URL of the server can't be read")
	}
	password, _ := u.User.Password()
	for _, kind := range []string{"queues", "exchanges"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+net.JoinHostPort(u.Hostname(), portAbove(t, u))+"/api/"+kind+"/%2F?disable_stats=true", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.SetBasicAuth(u.User.Username(), password)
		answer, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		var all []struct{ Name string }
		err = json.NewDecoder(answer.Body).Decode(&all)
		_ = answer.Body.Close()
		if err != nil || answer.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s, %v", kind, answer.Status, err)
		}
		for _, x := range all {
			if strings.HasPrefix(x.Name, prefix) {
				names = append(names, x.Name)
			}
		}
	}
	return names
}

func TestADemoOnRabbitMQUnderAllFaultsProvesTheSameOnEachDatabaseAndItsShopGoesOnThere(t *testing.T) {
	at := rabbitForTest(t)
	postgres, _ := shopDatabase(t)
	mysql, _ := mysqlServer(t)
	for name, db := range map[string]string{"SQLite": "", "PostgreSQL": postgres, "MariaDB": mysql} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "shop")
			t.Cleanup(func() {
				for _, drop := range []func(context.Context, string) error{shop.DropBroker, shop.DropDatabase} {
					if err := drop(context.Background(), dir); err != nil {
						t.Error(err)
					}
				}
			})
			code, out, errs := output(t, "demo", "--broker", at, "--db", db, "--scenario", "everything", "--orders", "200", "--seed", "3", "--dir", dir, "--json", "--timeout", "5m")
			r := proofOf(t, code, out, errs)
			if r.Orders.Accepted != 200 || r.Orders.Completed+r.Orders.Cancelled != 200 || len(r.Faults) != len(drill.FaultNames())-1 || len(r.Letters) == 0 {
				t.Errorf("%+v", r)
			}
			use, err := shop.Broker(dir)
			if err != nil || len(leftOnRabbit(t, at, use.Topic()+".log")) > 0 {
				t.Errorf("the log of %+v is left, though nobody reads it; %v", use, err)
			}
			goOnWithLetter(t, dir, use.Topic(), r.Letters[0])
		})
	}
}
