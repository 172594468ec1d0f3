package rawbench

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
	_ "modernc.org/sqlite" // the raw figure uses the driver directly

	"github.com/settlemq/settle"
)

const payloadBytes = 256

// sample returns an order event with a JSON payload of payloadBytes.
func sample(topic string, i int) *settle.Event {
	body := `{"order_id":"` + strconv.Itoa(i) + `","note":"`
	return &settle.Event{
		Type: "order.created", AggregateType: "order", AggregateID: "o-" + strconv.Itoa(i%1000), Topic: topic,
		Payload: []byte(body + strings.Repeat("x", payloadBytes-len(body)-2) + `"}`),
	}
}

const topic = "bench"

// rawSQLite commits two rows for each event, batch events per transaction:
// what any outbox or inbox has to do at least.
func rawSQLite(ctx context.Context, path string, events, batch int) (time.Duration, error) {
	db, err := sql.Open("sqlite", "file:"+path+"?_txlock=immediate&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=busy_timeout(5000)")
	if err != nil {
		return 0, err
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	const schema = `
CREATE TABLE log (id INTEGER PRIMARY KEY AUTOINCREMENT, event_id TEXT NOT NULL UNIQUE, event_type TEXT NOT NULL, aggregate_id TEXT NOT NULL, payload BLOB NOT NULL, at INTEGER NOT NULL);
CREATE TABLE effect (id INTEGER PRIMARY KEY AUTOINCREMENT, aggregate_id TEXT NOT NULL, amount INTEGER NOT NULL)`
	if _, err := db.ExecContext(ctx, schema); err != nil {
		return 0, err
	}
	log, err := db.PrepareContext(ctx, `INSERT INTO log (event_id, event_type, aggregate_id, payload, at) VALUES (?, ?, ?, ?, ?)`)
	if err != nil {
		return 0, err
	}
	effect, err := db.PrepareContext(ctx, `INSERT INTO effect (aggregate_id, amount) VALUES (?, ?)`)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	for done := 0; done < events; done += batch {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return 0, err
		}
		for i := done; i < min(done+batch, events); i++ {
			e := sample(topic, i)
			if _, err := tx.StmtContext(ctx, log).ExecContext(ctx, settle.NewID(), e.Type, e.AggregateID, e.Payload, i); err != nil {
				return 0, err
			}
			if _, err := tx.StmtContext(ctx, effect).ExecContext(ctx, e.AggregateID, i); err != nil {
				return 0, err
			}
		}
		if err := tx.Commit(); err != nil {
			return 0, err
		}
	}
	return time.Since(began), nil
}

// rawAtomic publishes envelopes in JetStream's atomic batches, one in flight.
func rawAtomic(ctx context.Context, url string, events, batch int) (time.Duration, error) {
	nc, done, err := rawStream(ctx, url, "raw_atomic_"+strconv.Itoa(batch))
	if err != nil {
		return 0, err
	}
	defer done()
	subject := "raw_atomic_" + strconv.Itoa(batch) + ".0"
	began := time.Now()
	for from := 0; from < events; from += batch {
		id, to := nuid.Next(), min(from+batch, events)
		for i := from; i < to; i++ {
			m := rawMessage(subject, i)
			m.Header.Set("Nats-Batch-Id", id)
			m.Header.Set("Nats-Batch-Sequence", strconv.Itoa(i-from+1))
			if i < to-1 {
				if err := nc.PublishMsg(m); err != nil {
					return 0, err
				}
				continue
			}
			m.Header.Set("Nats-Batch-Commit", "1")
			answer, err := nc.RequestMsgWithContext(ctx, m)
			if err != nil {
				return 0, err
			}
			if !strings.Contains(string(answer.Data), `"count":`+strconv.Itoa(to-from)) {
				return 0, fmt.Errorf("publish batch: %s", answer.Data)
			}
		}
	}
	return time.Since(began), nil
}

// rawSingles publishes one message after another, a window of 16 in flight.
func rawSingles(ctx context.Context, url string, events int) (time.Duration, error) {
	nc, done, err := rawStream(ctx, url, "raw_singles")
	if err != nil {
		return 0, err
	}
	defer done()
	js, err := jetstream.New(nc)
	if err != nil {
		return 0, err
	}
	window := make(chan jetstream.PubAckFuture, 16)
	failed := make(chan error, 1)
	go func() {
		defer close(failed)
		for f := range window {
			select {
			case <-f.Ok():
			case err := <-f.Err():
				failed <- err
				for range window {
				}
				return
			}
		}
	}()
	began := time.Now()
	for i := range events {
		f, err := js.PublishMsgAsync(rawMessage("raw_singles.0", i))
		if err != nil {
			close(window)
			<-failed
			return 0, err
		}
		window <- f
	}
	close(window)
	if err := <-failed; err != nil {
		return 0, err
	}
	return time.Since(began), nil
}

// rawMessage encodes the envelope and headers that Settle sends.
func rawMessage(subject string, i int) *nats.Msg {
	e := sample(topic, i)
	_ = e.Prepare(time.Now())
	m := &nats.Msg{Subject: subject, Data: settle.AppendEnvelope(nil, e), Header: nats.Header{}}
	for _, h := range settle.WireHeaders(settle.Message{ID: e.ID, Event: e, Epoch: 1, Source: "bench"}) {
		m.Header[h[0]] = []string{h[1]}
	}
	m.Header["Nats-Msg-Id"] = []string{e.ID}
	return m
}

func rawStream(ctx context.Context, url, name string) (*nats.Conn, func(), error) {
	nc, err := nats.Connect(url)
	if err != nil {
		return nil, nil, err
	}
	js, err := jetstream.New(nc)
	if err == nil {
		_, err = js.CreateStream(ctx, jetstream.StreamConfig{Name: name, Subjects: []string{name + ".*"}, Storage: jetstream.FileStorage, AllowAtomicPublish: true})
	}
	if err != nil {
		nc.Close()
		return nil, nil, err
	}
	return nc, nc.Close, nil
}
