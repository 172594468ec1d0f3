package settle_test

import (
	"encoding/json"
	"io"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/settlemq/settle"

// imports says what each package may import: of ours, and of third parties
// (by module prefix). Imports point inward; siblings never meet. "any" stands
// for any package of ours, or any module.
var imports = map[string]struct{ ours, others []string }{
	"": {others: []string{"github.com/google/uuid"}},

	"relay":      {ours: []string{""}, others: []string{"github.com/sony/gobreaker/v2", "golang.org/x/time"}},
	"consumer":   {ours: []string{""}, others: []string{"github.com/sony/gobreaker/v2", "golang.org/x/time"}},
	"settletest": {ours: []string{"", "relay", "consumer", "broker/memory", "store/sqlite"}},

	"direct": {ours: []string{""}, others: []string{"github.com/sony/gobreaker/v2"}},

	"txmsg":           {ours: []string{""}},
	"txmsg/txmsgtest": {ours: []string{"", "txmsg"}},
	"store/halflog":   {ours: []string{"", "govern", "txmsg"}},

	"bridge":            {ours: []string{"", "govern"}},
	"bridge/bridgetest": {ours: []string{"", "bridge"}},

	"broker/brokertest":          {ours: []string{""}},
	"broker/cloudevents":         {ours: []string{""}},
	"broker/internal/brokerurl":  {},
	"broker/internal/claims":     {ours: []string{""}},
	"broker/internal/deadletter": {},
	"broker/kafka":               {ours: []string{"", "broker/cloudevents", "broker/internal/brokerurl", "bridge", "broker/internal/deadletter", "doctor"}, others: []string{"github.com/twmb/franz-go"}},
	"broker/memory":              {ours: []string{"", "broker/internal/claims"}},
	"broker/nats":                {ours: []string{"", "broker/cloudevents", "broker/internal/brokerurl", "bridge", "broker/internal/claims", "broker/internal/deadletter", "doctor"}, others: []string{"github.com/nats-io/nats.go"}},
	"broker/nats/embedded":       {ours: []string{""}, others: []string{"github.com/nats-io/nats-server/v2", "github.com/nats-io/nats.go", "golang.org/x/sys"}},
	"broker/rabbitmq":            {ours: []string{"", "broker/cloudevents", "broker/internal/brokerurl", "bridge", "broker/internal/deadletter", "doctor"}, others: []string{"github.com/rabbitmq/amqp091-go"}},
	"broker/rocketmq":            {ours: []string{"", "broker/cloudevents", "broker/internal/brokerurl", "bridge", "broker/internal/claims", "broker/internal/deadletter", "broker/rocketmq/remoting", "doctor", "txmsg"}},
	"broker/rocketmq/remoting":   {},

	"advise": {},

	"doctor":            {},
	"doctor/doctortest": {ours: []string{"doctor"}},

	"store/migrate":          {others: []string{"github.com/pressly/goose/v3"}},
	"store/outboxlog":        {ours: []string{"", "relay"}},
	"store/adopt":            {ours: []string{"", "store/migrate", "relay"}},
	"store/bridgelog":        {ours: []string{"", "bridge", "govern", "store/consumelog"}},
	"store/consumelog":       {ours: []string{"", "govern", "store/adopt", "store/migrate"}},
	"store/sqlite":           {ours: []string{"", "store/migrate", "store/bridgelog", "store/consumelog", "store/halflog", "txmsg", "store/outboxlog", "bridge", "relay", "govern", "doctor"}, others: []string{"modernc.org/sqlite", "golang.org/x/sys"}},
	"store/mysql":            {ours: []string{"", "store/adopt", "store/migrate", "store/bridgelog", "store/consumelog", "store/halflog", "txmsg", "store/outboxlog", "bridge", "relay", "govern", "doctor"}, others: []string{"github.com/go-sql-driver/mysql"}},
	"store/postgres":         {ours: []string{"", "store/adopt", "store/migrate", "store/bridgelog", "store/consumelog", "store/halflog", "txmsg", "store/outboxlog", "bridge", "relay", "govern", "doctor"}, others: []string{"github.com/jackc/pgx/v5"}},
	"store/storetest":        {ours: []string{"", "bridge", "relay", "govern", "txmsg"}},
	"store/storetest/broken": {ours: []string{"", "bridge", "relay", "govern", "txmsg", "store/storetest"}},

	"store/storetest/adopted":    {ours: []string{"", "relay", "doctor", "govern", "broker/memory", "store/migrate", "store/storetest", "store/storetest/concurrent"}},
	"store/storetest/concurrent": {ours: []string{"", "relay", "consumer", "govern", "broker/memory"}},

	"govern": {ours: []string{""}},
	"drill":  {ours: []string{""}, others: []string{"modernc.org/sqlite", "github.com/jackc/pgx/v5", "github.com/go-sql-driver/mysql", "golang.org/x/sys"}},

	"dial":                    {ours: []string{"", "bridge", "broker/kafka", "broker/memory", "broker/nats", "broker/nats/embedded", "broker/rabbitmq", "broker/rocketmq", "store/migrate", "store/mysql", "store/postgres", "store/sqlite", "relay", "govern", "doctor", "txmsg"}},
	"examples/shop":           {ours: []string{"", "relay", "consumer", "dial", "govern", "store/sqlite", "examples/shop/lifecycle", "examples/shop/outside"}, others: []string{"golang.org/x/sync", "golang.org/x/sys"}},
	"examples/shop/lifecycle": {},
	"examples/shop/outside":   {ours: []string{""}, others: []string{"modernc.org/sqlite", "github.com/sony/gobreaker/v2"}},
	"examples/quickstart":     {ours: []string{"", "relay", "consumer", "dial", "broker/memory", "broker/nats", "broker/nats/embedded", "store/sqlite"}},

	"server":     {ours: []string{"", "bridge", "relay", "consumer", "dial", "doctor", "govern", "internal/configfile"}},
	"cli":        {ours: []string{"", "advise", "relay", "consumer", "server", "dial", "store/migrate", "doctor", "govern", "drill", "examples/shop", "examples/shop/outside", "internal/configfile", "internal/rawbench"}, others: []string{"github.com/spf13/cobra", "github.com/spf13/pflag", "golang.org/x/sys"}},
	"cmd/settle": {ours: []string{"cli"}},

	"examples/spring-contract": {},

	"docs": {}, // tests alone: the documents are followed

	"internal/configfile": {others: []string{"github.com/goccy/go-yaml"}},

	"internal/sim":       {ours: []string{"", "relay", "consumer", "txmsg", "store/outboxlog", "examples/shop/lifecycle"}},
	"internal/shopdoc":   {ours: []string{"examples/shop", "examples/shop/lifecycle"}},
	"internal/crashmain": {ours: []string{"cli"}},
	"internal/lossydisk": {others: []string{"github.com/hanwen/go-fuse/v2"}},
	"internal/natsnode":  {others: []string{"github.com/nats-io/nats-server/v2"}},
	"internal/services":  {},
	"internal/pgserver":  {ours: []string{"internal/services"}, others: []string{"github.com/jackc/pgx/v5"}},
	"internal/myserver":  {ours: []string{"internal/services"}, others: []string{"github.com/go-sql-driver/mysql"}},
	"internal/rawbench":  {ours: []string{"any"}, others: []string{"any"}},
}

type listed struct {
	ImportPath string
	Imports    []string
}

func TestPackagesImportOnlyWhatTheTableAllows(t *testing.T) {
	for _, p := range listPackages(t) {
		for _, wrong := range violations(p) {
			t.Error(wrong)
		}
	}
}

func TestTheImportTableNamesAForbiddenImport(t *testing.T) {
	for _, planted := range []listed{
		{ImportPath: module + "/relay", Imports: []string{module + "/store/sqlite"}},
		{ImportPath: module, Imports: []string{"modernc.org/sqlite"}},
		{ImportPath: module + "/a/new/package"},
	} {
		if len(violations(planted)) == 0 {
			t.Errorf("%s with %v passes", planted.ImportPath, planted.Imports)
		}
	}
}

func violations(p listed) []string {
	name := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
	rule, ok := imports[name]
	if !ok {
		return []string{name + " is missing from the import table in deps_test.go"}
	}
	var wrong []string
	for _, imp := range p.Imports {
		if imp == module || strings.HasPrefix(imp, module+"/") {
			of := strings.TrimPrefix(strings.TrimPrefix(imp, module), "/")
			if !slices.Contains(rule.ours, of) && !slices.Contains(rule.ours, "any") {
				wrong = append(wrong, name+" may not import our "+of)
			}
			continue
		}
		first, _, _ := strings.Cut(imp, "/")
		if !strings.Contains(first, ".") || slices.Contains(rule.others, "any") {
			continue
		}
		if !slices.ContainsFunc(rule.others, func(m string) bool { return imp == m || strings.HasPrefix(imp, m+"/") }) {
			wrong = append(wrong, name+" may not import "+imp)
		}
	}
	return wrong
}

func listPackages(t *testing.T) []listed {
	t.Helper()
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports", module+"/...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	found := map[string]listed{}
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := dec.Decode(&p); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		found[p.ImportPath] = p
	}
	if len(found) == 0 {
		t.Fatal("go list found no package")
	}
	return slices.Collect(maps.Values(found))
}
