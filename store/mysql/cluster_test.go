package mysql_test

import (
	"context"
	"database/sql"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/doctor"
	"github.com/settlemq/settle/internal/myserver"
	"github.com/settlemq/settle/store/mysql"
	"github.com/settlemq/settle/store/storetest/concurrent"
)

const galera = "/usr/lib/galera/libgalera_smm.so"

// node makes a server the only node of a Galera cluster.
func node(t *testing.T) *myserver.Server {
	t.Helper()
	onlyLong(t)
	own := myserver.Own(t)
	if _, err := os.Stat(galera); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("there is no %s: Debian's mariadb-server brings it", galera)
		}
		t.Skip("SKIPPED, NOTHING OF THIS IS PROVED: there is no " + galera)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	own.Set("wsrep_on = ON", "wsrep_provider = "+galera, "wsrep_cluster_address = gcomm://", "wsrep_node_address = 127.0.0.1", "wsrep_provider_options = gmcast.listen_addr=tcp://"+at)
	own.Await("SELECT VARIABLE_VALUE = 'ON' FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'wsrep_ready'")
	return own
}

func TestANodeOfAClusterThatIsNotInSyncCostsNoEventAnAttempt(t *testing.T) {
	own := node(t)
	at := own.Database("node")
	s := processesAt(t, at, 1)[0]
	list, err := mysql.NewDoctor(at, mysql.DoctorConfig{}).Check(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range list {
		if f.Check == "cluster" && (f.Verdict != doctor.Warn || !strings.Contains(f.Found, "Galera")) {
			t.Errorf("doctor says %+v", f)
		}
	}
	admin, err := own.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	refuse := func(what string) error {
		_, err := admin.ExecContext(context.WithoutCancel(t.Context()), "SET GLOBAL wsrep_reject_queries = "+what)
		return err
	}
	var once sync.Once
	back := make(chan error, 1)
	r := concurrent.ConsumeAll(t, process(s), func(context.Context, *sql.Tx, *settle.Event) (err error) {
		once.Do(func() {
			err = refuse("ALL")
			time.AfterFunc(300*time.Millisecond, func() { back <- refuse("NONE") })
		})
		return err
	})
	r.NobodysFault(t, process(s))
	if down, _ := r.Changes(); down == 0 {
		t.Error("the node has refused nothing: the test proves nothing")
	}
	if err := <-back; err != nil {
		t.Error(err)
	}
}
