package cli_test

import (
	"strings"
	"testing"
	"time"

	"github.com/settlemq/settle/internal/myserver"
	"github.com/settlemq/settle/server"
)

func TestAMySQLServerThatIsKilledInMidWriteTakesNothingBackThatWasSent(t *testing.T) {
	t.Parallel()
	own := myserver.Own(t)
	l := relayOf(t, own.Database("cut"), 1)
	kills := 1
	if long() {
		kills = 8
	}
	l.under(4, func() {
		for range kills {
			l.sent(150)
			own.Kill()
			own.Start()
		}
		l.sent(50)
	})
	l.settled().want(t, false, kills*inFlight)
}

func TestAReplicaOfMySQLThatIsWaitedForTakesOverWithAllThatWasAnswered(t *testing.T) {
	onlyLong(t)
	t.Parallel()
	p := myserver.Replicated(t, "pair")
	p.Primary.WaitFor(p.Replica)
	l := relayOf(t, p.At, 1)
	l.under(4, func() {
		l.sent(150)
		p.Replica.Kill()
		// Whoever commits waits now.
		p.Primary.Await("SELECT count(*) > 1 FROM information_schema.processlist WHERE state LIKE 'Waiting for semi-sync ACK%'")
		p.Replica.Start()
		l.sent(150)
		p.Primary.Kill()
		p.Promote()
		l.sent(150)
	})
	l.settled().want(t, false, 2*inFlight)
}

// TestAReplicaOfMySQLThatLaggedLosesOnlyWhatTheDatabaseLost: ids are given
// again, and the relay's position goes back with the rows.
func TestAReplicaOfMySQLThatLaggedLosesOnlyWhatTheDatabaseLost(t *testing.T) {
	onlyLong(t)
	t.Parallel()
	p := myserver.Replicated(t, "pair")
	l := relayOf(t, p.At, 1)
	l.under(4, func() {
		l.sent(150)
		p.Replica.Exec("STOP SLAVE IO_THREAD")
		l.sent(300)
		p.Primary.Kill()
		p.Promote()
		l.sent(300)
	})
	a := l.settled()
	if len(a.forgotten) == 0 || len(a.gone) == 0 {
		t.Errorf("the replica has lost nothing (%d answered, %d sent): the test proves nothing", len(a.forgotten), len(a.gone))
	}
	a.want(t, true, 2*inFlight)
	if h, _ := l.serves[0].read(); h.Sources["order"].State != server.StateLeading {
		t.Errorf("it stands so: %+v", h.Sources["order"].Standing)
	}
	if told := strings.Count(l.serves[0].log.String(), "leading the outbox"); told < 2 {
		t.Errorf("that it begins from another position is told %d times:\n%s", told, l.serves[0].log)
	}
}

// TestASwitchoverThatLeavesTheOldServerReadOnlyIsFollowed: connections to the
// old one stay open and answer.
func TestASwitchoverThatLeavesTheOldServerReadOnlyIsFollowed(t *testing.T) {
	onlyLong(t)
	t.Parallel()
	p := myserver.Replicated(t, "pair")
	l := relayOf(t, p.At, 2)
	l.under(4, func() {
		l.sent(150)
		p.Primary.Exec("SET GLOBAL read_only = ON")
		p.Replica.Follows(p.Primary)
		p.Promote()
		l.sent(150)
	})
	l.settled().want(t, false, 2*inFlight)
}

func TestAMySQLServerThatHangsOrLocksTheOutboxHoldsDeliveryUpAndNoLonger(t *testing.T) {
	onlyLong(t)
	t.Parallel()
	own := myserver.Own(t)
	at := own.Database("hang")
	l := relayOf(t, at, 1)
	const hang = 20 * time.Second
	l.under(4, func() {
		l.sent(100)
		own.Pause()
		time.Sleep(hang) // as long as it is stopped nothing tells of it
		own.Resume()
		l.sent(100)
		unlock := holdMySQL(t, at, "LOCK TABLES t_outbox_event WRITE")
		time.Sleep(hang)
		unlock()
		l.sent(100)
	})
	l.settled().want(t, false, 2*inFlight)
}
