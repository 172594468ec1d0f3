package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/doctor"
	"github.com/settlemq/settle/doctor/doctortest"
	"github.com/settlemq/settle/relay"
)

// onDisk is a volume on which nothing is the matter.
func onDisk(string) (Volume, error) {
	return Volume{Magic: 0xef53, Free: 50 << 30, Size: 100 << 30}, nil
}

func diagnose(t *testing.T, path string, cfg DoctorConfig) map[string]doctor.Finding {
	t.Helper()
	if cfg.Volume == nil {
		cfg.Volume = onDisk
	}
	return doctortest.Diagnose(t, NewDoctor(path, cfg))
}

func execute(t *testing.T, path, statements string) {
	t.Helper()
	db, err := sql.Open("sqlite", dsn(path, Config{}))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if _, err := db.ExecContext(t.Context(), statements); err != nil {
		t.Fatalf("%s: %v", statements, err)
	}
}

// relayed makes a file in which events were sent and a relay has given its
// lease back: ids 1 to 3, and 10, which leaves cold ones.
func relayed(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "order.db")
	s, err := Open(t.Context(), path, Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	f := relay.Flush{Checkpoint: relay.Checkpoint{Number: 1, Readers: []relay.Reader{{Cursor: 10, CursorEvent: "e10"}}}, Cold: []int64{4, 5, 6}}
	for i, id := range []int64{1, 2, 3, 10} {
		execute(t, path, fmt.Sprintf(`INSERT INTO t_outbox_event (id, event_id, event_type, aggregate_id, payload) VALUES (%d, 'e%[1]d', 'x', 'k', '{}')`, id))
		f.Sent = append(f.Sent, relay.Sent{ID: id, EventID: fmt.Sprint("e", id), Destination: settle.DefaultTopic, At: settle.Coordinates{Topic: settle.DefaultTopic, Offset: int64(i)}, SentAt: time.Now()})
	}
	l := s.Log()
	lease, err := l.Lead(t.Context(), "me", 0, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Commit(t.Context(), lease, f); err != nil {
		t.Fatal(err)
	}
	if err := l.Resign(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestADoctorFindsNothingInASoundFile(t *testing.T) {
	for _, f := range diagnose(t, relayed(t), DoctorConfig{}) {
		if f.Verdict != doctor.OK {
			t.Errorf("%+v", f)
		}
	}
}

func TestADoctorFindsWhatWasPlantedInAFileAndSaysWhatMendsIt(t *testing.T) {
	const insert = `INSERT INTO t_outbox_event (id, event_id, event_type, aggregate_id, payload) VALUES `
	for _, c := range []struct {
		check   string
		verdict doctor.Verdict
		plant   string
		found   string
		// mended: the fix is SQL, and with it nothing is found any more.
		mended bool
	}{
		{"schema", doctor.Bad, "DELETE FROM settle_schema WHERE version_id > 1", "version 1, this program knows", false},
		{"schema", doctor.Bad, "INSERT INTO settle_schema (version_id, is_applied) VALUES (999, 1)", "version 999", false},
		{"schema", doctor.Bad, "DROP TABLE settle_schema", "no tables of Settle", false},
		{"tables", doctor.Bad, "DROP VIEW v_outbox_sent", "view v_outbox_sent is missing", true},
		{"tables", doctor.Bad, "DROP INDEX u_outbox_checkpoint", "index u_outbox_checkpoint is missing", true},
		{"tables", doctor.Bad, "DROP TRIGGER audit_is_not_changed", "trigger audit_is_not_changed is missing", true},
		{"tables", doctor.Bad, "DROP TABLE t_outbox_gap", "table t_outbox_gap is missing", true},
		{"tables", doctor.Bad, "ALTER TABLE t_consume_retry DROP COLUMN compensate", "column t_consume_retry.compensate is missing", true},
		{"tables", doctor.Bad, "DROP TABLE t_outbox_gap; CREATE TABLE t_outbox_gap (id TEXT, recorded_at INTEGER)", "column t_outbox_gap.id is TEXT, want INTEGER", false},
		{"journal_mode", doctor.Warn, "PRAGMA journal_mode = DELETE", "delete", true},
		{"generation", doctor.Bad, "DELETE FROM t_outbox_event; DELETE FROM sqlite_sequence", "has read up to id 10", false},
		{"generation", doctor.Bad, "UPDATE t_outbox_event SET event_id = 'other' WHERE id = 10", "e10 at id 10, and there is other", false},
		{"never_sent", doctor.Bad, insert + "(8, 'below', 'x', 'k', '')", "below", true},
		{"never_sent", doctor.OK, insert + "(5, 'cold', 'x', 'k', '')", "none of", false}, // the sweep finds it
		{"relay", doctor.Warn, "UPDATE t_outbox_lease SET clean = 0, epoch = epoch + 1", "me ended without giving the lease back", false},
		{"relay", doctor.Warn, "UPDATE t_outbox_lease SET deaths = 3", "the 3 leaders before me died", false},
	} {
		t.Run(c.check+" "+c.found, func(t *testing.T) {
			path := relayed(t)
			execute(t, path, c.plant)
			f := diagnose(t, path, DoctorConfig{})[c.check]
			if f.Verdict != c.verdict || !strings.Contains(f.Found, c.found) {
				t.Errorf("found %+v", f)
			}
			if !c.mended {
				return
			}
			fix, _, _ := strings.Cut(f.Fix, ", while nobody")
			execute(t, path, fix)
			if f := diagnose(t, path, DoctorConfig{})[c.check]; f.Verdict != doctor.OK {
				t.Errorf("after the fix: %+v", f)
			}
		})
	}
}

// A row that a fix has listed is one that the relay sends.
func TestWhatMendsANeverSentRowOfAFileMakesItWait(t *testing.T) {
	path := relayed(t)
	execute(t, path, `INSERT INTO t_outbox_event (id, event_id, event_type, aggregate_id, payload) VALUES (8, 'below', 'x', 'k', '{}')`)
	execute(t, path, diagnose(t, path, DoctorConfig{})["never_sent"].Fix)
	s, err := Open(t.Context(), path, Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	p, err := s.Log().Side(t.Context(), relay.SideQuery{Side: relay.SideExtra, MaxRows: 10, MaxBytes: 1 << 20})
	if err != nil || len(p.Rows) != 1 || p.Rows[0].ID != 8 {
		t.Errorf("to be sent: %+v, %v", p.Rows, err)
	}
}

func TestADoctorKnowsWhoLeadsAFile(t *testing.T) {
	path := relayed(t)
	s, err := Open(t.Context(), path, Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if l, err := s.Log().Lead(t.Context(), "other", 0, time.Hour); err != nil || !l.Held {
		t.Fatalf("%+v, %v", l, err)
	}
	if f := diagnose(t, path, DoctorConfig{})["relay"]; f.Verdict != doctor.OK || !strings.Contains(f.Found, "other leads") {
		t.Errorf("while it leads: %+v", f)
	}
	later := func() time.Time { return time.Now().Add(2 * time.Hour) }
	if f := diagnose(t, path, DoctorConfig{Clock: later})["relay"]; f.Verdict != doctor.Warn || !strings.Contains(f.Found, "other ended without giving") {
		t.Errorf("when its lease has run out: %+v", f)
	}
}

func TestADoctorFindsADamagedPage(t *testing.T) {
	path := relayed(t)
	execute(t, path, "PRAGMA wal_checkpoint(TRUNCATE)")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := len(b) / 2; i < len(b); i++ {
		b[i] ^= 0x5a
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if f := diagnose(t, path, DoctorConfig{})["integrity"]; f.Verdict != doctor.Bad || !strings.Contains(f.Fix, ".recover") {
		t.Errorf("found %+v", f)
	}
}

func TestADoctorKnowsWhatADatabaseMustNotLieOn(t *testing.T) {
	path := relayed(t)
	const gib = 1 << 30
	for _, c := range []struct {
		v           Volume
		disk, space doctor.Verdict
	}{
		{Volume{0xef53, 50 * gib, 100 * gib}, doctor.OK, doctor.OK},
		{Volume{0x6969, 50 * gib, 100 * gib}, doctor.Bad, doctor.OK},
		{Volume{0xfe534d42, 50 * gib, 100 * gib}, doctor.Bad, doctor.OK},
		{Volume{0x01021994, 50 * gib, 100 * gib}, doctor.Bad, doctor.OK},
		{Volume{0x65735546, 50 * gib, 100 * gib}, doctor.Warn, doctor.OK},
		{Volume{0xef53, 1 * gib, 100 * gib}, doctor.OK, doctor.Warn},
		{Volume{0xef53, 1 * gib, 2 * gib}, doctor.OK, doctor.OK}, // a small disk
		{Volume{0xef53, 100 << 20, 100 * gib}, doctor.OK, doctor.Bad},
	} {
		all := diagnose(t, path, DoctorConfig{Volume: func(string) (Volume, error) { return c.v, nil }})
		if all["file_system"].Verdict != c.disk || all["free_space"].Verdict != c.space {
			t.Errorf("%+v: %+v, %+v", c.v, all["file_system"], all["free_space"])
		}
	}
	// The kernel is asked for the real ones.
	v, err := statVolume(path)
	if err != nil || v.Size == 0 || v.Free > v.Size || v.Magic == 0 {
		t.Errorf("the kernel says %+v, %v", v, err)
	}
	if _, err := os.Stat("/dev/shm"); err == nil {
		if v, err := statVolume("/dev/shm"); err != nil || v.Magic != inMemory {
			t.Errorf("of memory the kernel says %+v, %v", v, err)
		}
	}
}

func TestDurabilityIsAskedForAlone(t *testing.T) {
	of := NewDoctor(relayed(t), DoctorConfig{Volume: func(string) (Volume, error) { return Volume{Magic: inMemory}, nil }})
	list, err := of.Durability(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 2 || list[0].Check != "file_system" || list[0].Verdict != doctor.Bad || list[1].Check != "synchronous" || list[1].Verdict != doctor.OK {
		t.Errorf("found %+v", list)
	}
}

func TestACommitThatIsNotOnTheDiskIsBad(t *testing.T) {
	for mode, want := range []doctor.Verdict{doctor.Bad, doctor.Bad, doctor.OK, doctor.OK} {
		if got := ofSynchronous(mode).Verdict; got != want {
			t.Errorf("mode %d is %q, want %q", mode, got, want)
		}
	}
}

func TestADoctorChangesNothingAndRefusesWhatIsNoDatabase(t *testing.T) {
	dir := t.TempDir()
	none, text := filepath.Join(dir, "none.db"), filepath.Join(dir, "text.db")
	if err := os.WriteFile(text, []byte(strings.Repeat("no database\n", 500)), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, says := range map[string]string{none: "does not exist", text: "not a SQLite database"} {
		if _, err := NewDoctor(path, DoctorConfig{}).Check(t.Context()); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if _, err := os.Stat(none); err == nil {
		t.Error("a file was made")
	}
	path := relayed(t)
	before := dump(t, path)
	diagnose(t, path, DoctorConfig{})
	if after := dump(t, path); after != before {
		t.Errorf("before\n%s\nafter\n%s", before, after)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := NewDoctor(path, DoctorConfig{}).Check(ended); err == nil {
		t.Error("it goes on although its context is done")
	}
}

// dump is the file's bytes.
func dump(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
