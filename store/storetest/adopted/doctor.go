package adopted

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/doctor"
	"github.com/settlemq/settle/store/migrate"
)

// Planted is something wrong with tables of a service.
type Planted struct {
	Check   string
	Verdict doctor.Verdict
	// Plant are statements of the service, and Found is what is said then.
	Plant []string
	Found string
	// Mended: the fix is SQL, and with it nothing is found any more.
	Mended bool
}

// Findings are those of the doctor, by check.
func (s *Service) Findings() map[string]doctor.Finding {
	s.Helper()
	all, err := s.Doctor()
	if err != nil {
		s.Fatal(err)
	}
	found := map[string]doctor.Finding{}
	for _, f := range all {
		found[f.Check] = f
	}
	return found
}

// ofTheSharedLog are the checks of a shared consume log.
func ofTheSharedLog() []string {
	return []string{"shared_log", "shared_log_rights", "shared_log_zone", "shared_log_stuck"}
}

// SoundLog checks that a doctor finds nothing in a shared consume log that both
// kinds of consumers use, and does not speak of one where there is none.
func SoundLog(t *testing.T, open Open) {
	s := SharedLog(t, open, "Asia/Shanghai")
	store := s.Open(Options{})
	now := time.Now()
	s.Write("done", "SUCCESS", now, shanghai)
	s.Write("begun", "PROCESSING", now, shanghai)
	old, kept := Item("done", "k"), Item("kept", "l")
	old.Record.Event.AppendedAt = now.Add(-time.Second)
	kept.Record.Event.AppendedAt = now.Add(-2 * time.Hour)
	kept.Intent, kept.Class, kept.NextAt = settle.IntentPark, settle.ClassHandler, now.Add(time.Hour)
	s.Apply(store, old, kept, Item("ours", "m"))
	// What Settle itself keeps waiting may do so for long.
	s.exec(fmt.Sprintf(`UPDATE t_message_consume_log SET consumed_at = '%s' WHERE message_id = 'kept'`, stamp(now.Add(-time.Hour), shanghai)))
	all := s.Findings()
	for _, name := range ofTheSharedLog() {
		if f, ok := all[name]; !ok || f.Verdict != doctor.OK {
			t.Errorf("%s: %+v", name, f)
		}
	}
	none := open(t)
	for _, statement := range none.Outbox {
		none.exec(statement)
	}
	if _, err := none.Adopt(t.Context(), migrate.AdoptConfig{Table: none.Schema + ".t_outbox_event"}); err != nil {
		t.Fatal(err)
	}
	for name, f := range none.Findings() {
		if strings.HasPrefix(name, "shared_log") {
			t.Errorf("where none is shared: %+v", f)
		}
	}
}

// PlantedInLog checks that a doctor finds what was planted in a shared consume
// log, and what mends it: what every kind of database can have, and more.
func PlantedInLog(t *testing.T, open Open, more []Planted) {
	ago := func(d time.Duration, id, status string) string {
		return fmt.Sprintf(`INSERT INTO t_message_consume_log (consumer_group, message_id, biz_key, status, consumed_at) VALUES ('g', '%s', 'b', '%s', '%s')`, id, status, stamp(time.Now().Add(-d), time.UTC))
	}
	all := slices.Concat([]Planted{
		{"shared_log", doctor.Bad, []string{`DROP TABLE t_message_consume_log`}, "is gone", false},
		{"shared_log", doctor.Bad, []string{`ALTER TABLE t_message_consume_log DROP COLUMN biz_key`}, "column biz_key is missing", true},
		{"shared_log", doctor.Bad, []string{ago(0, "e", "HELD")}, `status "HELD" of 1 rows has no meaning`, false},
		{"shared_log_zone", doctor.Bad, []string{ago(-8*time.Hour, "e", "SUCCESS")}, "ahead of the clock", false},
		{"shared_log_stuck", doctor.Warn, []string{ago(16*time.Minute, "e", "PROCESSING"), ago(14*time.Minute, "f", "FAILED")}, "1 messages of group g were begun by foreign consumers more than 15m0s ago and not ended, the first", false},
	}, more)
	for _, p := range all {
		t.Run(p.Check+" "+p.Found, func(t *testing.T) {
			t.Parallel()
			p.check(SharedLog(t, open, "UTC"))
		})
	}
}

func (p *Planted) check(s *Service) {
	s.Helper()
	for _, statement := range p.Plant {
		s.exec(statement)
	}
	f := s.Findings()[p.Check]
	if f.Verdict != p.Verdict || !strings.Contains(f.Found, p.Found) || f.Fix == "" || f.Why == "" {
		s.Errorf("found %+v", f)
	}
	if !p.Mended {
		return
	}
	for fix := range strings.SplitSeq(f.Fix, "; ") {
		s.exec(fix)
	}
	if f := s.Findings()[p.Check]; f.Verdict != doctor.OK {
		s.Errorf("after the fix: %+v", f)
	}
}

// TooFarEast checks that a doctor notices by the events themselves that a shared
// consume log is read in a zone too far east: a row that seems older than its
// event was written further west.
func TooFarEast(t *testing.T, open Open) {
	s := SharedLog(t, open, "Asia/Shanghai")
	store := s.Open(Options{})
	s.Write("e", "SUCCESS", time.Now(), time.UTC)
	if f := s.Findings()["shared_log_zone"]; f.Verdict != doctor.OK {
		t.Errorf("while nothing shows it: %+v", f)
	}
	if got := s.Apply(store, Item("e", "k")); got[0] != settle.VerdictDuplicate {
		t.Fatalf("what was done is %v", got)
	}
	if f := s.Findings()["shared_log_zone"]; f.Verdict != doctor.Bad || !strings.Contains(f.Found, "before its event was stored") || !strings.Contains(f.Fix, "--zone") {
		t.Errorf("found %+v", f)
	}
}
