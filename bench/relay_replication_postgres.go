package main

import (
	"context"
	"encoding/binary"
	"errors"
	"net/url"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/settlemq/settle"
)

// replication is a minimal reader of logical replication, as change-data-capture
// relays are at heart: pgoutput in binary, one slot, acknowledged after each
// 1,000 events and whenever the server has no more. What is refused it can only
// try again: a log has no place to put a record aside.
func replication() contender {
	l := logOnPostgres
	l.create = func(ctx context.Context, p *place) error {
		if err := logOnPostgres.create(ctx, p); err != nil {
			return err
		}
		return p.exec(ctx, `CREATE PUBLICATION `+p.name+` FOR TABLE t_outbox_event WITH (publish = 'insert')`,
			`SELECT pg_create_logical_replication_slot('`+p.name+`', 'pgoutput')`)
	}
	return contender{name: "replication", title: "logical replication (pgoutput, ack per 1,000)", layout: l, carry: carryReplication, share: 2}
}

// follower is a connection that a slot's changes arrive on.
type follower struct {
	conn    *pgconn.PgConn
	columns map[string]int
	// take publishes an event, or hands it over. settled tells up to which end of
	// a transaction all is published, given the last that was handed over; 0 is
	// nothing new.
	take    func(ctx context.Context, e *settle.Event) error
	settled func(end pglogrepl.LSN) pglogrepl.LSN
	// done is the end of the last transaction taken, unacked how many events
	// were since the last acknowledgement.
	done    pglogrepl.LSN
	unacked int
}

func carryReplication(ctx context.Context, c conditions) error {
	var envelope []byte
	return follow(ctx, c, &follower{
		take: func(ctx context.Context, e *settle.Event) error {
			envelope = settle.AppendEnvelope(envelope[:0], e)
			for ctx.Err() == nil {
				err := c.out.publish(e.ID, envelope)
				if !errors.Is(err, errRefused) {
					return err
				}
				pause(ctx, 100*time.Millisecond)
			}
			return ctx.Err()
		},
		settled: func(end pglogrepl.LSN) pglogrepl.LSN { return end },
	})
}

// follow reads the slot until ctx is done.
func follow(ctx context.Context, c conditions, f *follower) error {
	work := context.WithoutCancel(ctx)
	u, err := url.Parse(c.url)
	if err != nil {
		return errors.New("the URL can't be read")
	}
	q := u.Query()
	q.Set("replication", "database")
	u.RawQuery = q.Encode()
	conn, err := pgconn.Connect(work, u.String())
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(work) }()
	slot := q.Get("search_path")
	if err := startReplication(work, conn, slot); err != nil {
		return err
	}
	// A context of each read would cost a goroutine of each.
	stop := context.AfterFunc(ctx, func() { _ = conn.Conn().SetReadDeadline(time.Now()) })
	defer stop()
	f.conn = conn
	for {
		if err := f.next(ctx); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
	}
}

// startReplication waits for the slot: the server keeps it for a moment after
// its reader was killed.
func startReplication(ctx context.Context, conn *pgconn.PgConn, slot string) error {
	const inUse = "55006"
	for {
		err := pglogrepl.StartReplication(ctx, conn, slot, 0, pglogrepl.StartReplicationOptions{
			PluginArgs: []string{"proto_version '1'", "publication_names '" + slot + "'", "binary 'true'"},
		})
		var refused *pgconn.PgError
		if !errors.As(err, &refused) || refused.Code != inUse {
			return err
		}
		pause(ctx, 20*time.Millisecond)
	}
}

func (f *follower) next(ctx context.Context) error {
	m, err := f.conn.ReceiveMessage(context.Background())
	if err != nil {
		return err
	}
	switch m := m.(type) {
	case *pgproto3.ErrorResponse:
		return pgconn.ErrorResponseToPgError(m)
	case *pgproto3.CopyData:
		switch m.Data[0] {
		case pglogrepl.PrimaryKeepaliveMessageByteID:
			return f.acknowledge()
		case pglogrepl.XLogDataByteID:
			data, err := pglogrepl.ParseXLogData(m.Data[1:])
			if err != nil {
				return err
			}
			return f.change(ctx, data.WALData)
		}
	}
	return nil
}

func (f *follower) change(ctx context.Context, wal []byte) error {
	m, err := pglogrepl.Parse(wal)
	if err != nil {
		return err
	}
	switch m := m.(type) {
	case *pglogrepl.RelationMessage:
		f.columns = make(map[string]int, len(m.Columns))
		for i, c := range m.Columns {
			f.columns[c.Name] = i
		}
	case *pglogrepl.InsertMessage:
		f.unacked++
		return f.insert(ctx, m.Tuple.Columns)
	case *pglogrepl.CommitMessage:
		f.done = m.TransactionEndLSN
		if f.unacked >= 1000 {
			return f.acknowledge()
		}
	}
	return nil
}

func (f *follower) insert(ctx context.Context, columns []*pglogrepl.TupleDataColumn) error {
	data := func(name string) []byte { return columns[f.columns[name]].Data }
	e := settle.Event{
		ID: string(data("event_id")), Type: string(data("event_type")), AggregateType: string(data("aggregate_type")), AggregateID: string(data("aggregate_id")),
		AggregateSeq: integerOf(data("aggregate_seq")), BizKey: string(data("biz_key")), TraceID: string(data("trace_id")), CausationID: string(data("causation_id")),
		Topic: string(data("topic")), Version: int(integerOf(data("version"))), ContentType: string(data("content_type")),
		OccurredAt: instantOf(data("occurred_at")), AppendedAt: instantOf(data("appended_at")), Payload: data("payload"),
	}
	return f.take(ctx, &e)
}

// acknowledge tells the slot that all up to the last whole transaction is
// published.
func (f *follower) acknowledge() error {
	if f.done == 0 {
		return nil
	}
	f.unacked = 0
	at := f.settled(f.done)
	if at == 0 {
		return nil
	}
	return pglogrepl.SendStandbyStatusUpdate(context.Background(), f.conn, pglogrepl.StandbyStatusUpdate{WALWritePosition: at})
}

func integerOf(b []byte) int64 {
	switch len(b) {
	case 4:
		return int64(int32(binary.BigEndian.Uint32(b)))
	case 8:
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

// epoch2000 is what the server counts microseconds from.
var epoch2000 = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

func instantOf(b []byte) time.Time {
	if len(b) != 8 {
		return time.Time{}
	}
	return epoch2000.Add(time.Duration(integerOf(b)) * time.Microsecond)
}
