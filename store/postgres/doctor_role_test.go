package postgres

import (
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/doctor"
)

// role makes a role that is dropped when the test ends, and returns its URL.
func role(t *testing.T, at, options string) (name, url string) {
	t.Helper()
	name = "test_" + strings.ReplaceAll(settle.NewID(), "-", "")
	execute(t, at, "CREATE ROLE "+name+" LOGIN PASSWORD 'canary' "+options)
	t.Cleanup(func() { execute(t, os.Getenv("SETTLE_TEST_POSTGRES"), "DROP OWNED BY "+name+"; DROP ROLE "+name) })
	return name, as(t, at, name, "canary")
}

func as(t *testing.T, at, user, password string) string {
	t.Helper()
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(user, password)
	return u.String()
}

func TestADoctorNamesTheRightsThatARoleLacks(t *testing.T) {
	at, _ := relayed(t)
	name, asRole := role(t, at, "")
	f := diagnose(t, asRole, DoctorConfig{})["schema"]
	if f.Verdict != doctor.Bad || !strings.Contains(f.Found, name+" may not use schema") {
		t.Fatalf("found %+v", f)
	}
	execute(t, at, f.Fix)
	all := diagnose(t, asRole, DoctorConfig{})
	f = all["privileges"]
	if f.Verdict != doctor.Bad || !strings.Contains(f.Fix, "GRANT SELECT ON settle_schema, v_outbox_event") || !strings.Contains(f.Fix, "GRANT SELECT, INSERT ON t_audit TO") {
		t.Fatalf("found %+v", f)
	}
	if f := all["schema"]; f.Verdict != doctor.Warn || !strings.Contains(f.Found, "can't be looked at") {
		t.Errorf("a version that may not be read: %+v", f)
	}
	execute(t, at, f.Fix)
	execute(t, at, "REVOKE DELETE ON t_outbox_extra FROM "+name)
	f = diagnose(t, asRole, DoctorConfig{})["privileges"]
	if f.Verdict != doctor.Bad || f.Fix != "GRANT DELETE ON t_outbox_extra TO "+name {
		t.Errorf("found %+v", f)
	}
	execute(t, at, f.Fix)
	all = diagnose(t, asRole, DoctorConfig{})
	for name, f := range all {
		if f.Verdict != doctor.OK && !slices.Contains(ofTheServer(), name) {
			t.Errorf("a role that has its rights: %+v", f)
		}
	}
	s := OpenForTest(t, asRole, Config{Existing: true})
	lease := leadTest(t, s.Log())
	if _, err := s.Log().Load(t.Context(), lease); err != nil {
		t.Errorf("a relay with every right that is named: %v", err)
	}
	if f := all["old_relay"]; !strings.Contains(f.Found, "sessions of other roles are hidden from "+name+": GRANT pg_monitor TO "+name) {
		t.Errorf("it does not say what it can't see: %+v", f)
	}
}

func TestADoctorFindsASettingWhereItComesFrom(t *testing.T) {
	at, _ := relayed(t)
	name, asRole := role(t, at, "")
	execute(t, at, "GRANT USAGE ON SCHEMA "+schemaOf(t, at)+" TO "+name)
	for _, c := range []struct {
		check   string
		verdict doctor.Verdict
		setting string
	}{
		{"synchronous_commit", doctor.Bad, "synchronous_commit = off"},
		{"isolation", doctor.Warn, "default_transaction_isolation = 'repeatable read'"},
		{"writable", doctor.Bad, "default_transaction_read_only = on"},
	} {
		for _, where := range []string{"", " IN DATABASE postgres"} {
			execute(t, at, "ALTER ROLE "+name+where+" SET "+c.setting)
			f := diagnose(t, asRole, DoctorConfig{})[c.check]
			if f.Verdict != c.verdict {
				t.Errorf("%s: %+v", c.setting, f)
			}
			if f := diagnose(t, at, DoctorConfig{})["synchronous_commit"]; c.check == f.Check && (f.Verdict != doctor.Warn || !strings.Contains(f.Found, "off for "+name)) {
				t.Errorf("of another role: %+v", f)
			}
			execute(t, at, f.Fix)
			if f := diagnose(t, asRole, DoctorConfig{})[c.check]; f.Verdict != doctor.OK {
				t.Errorf("after %s: %+v", c.setting, f)
			}
		}
	}
	execute(t, at, "ALTER ROLE "+name+" CONNECTION LIMIT 5")
	f := diagnose(t, asRole, DoctorConfig{})["connections"]
	if f.Verdict != doctor.Bad || !strings.Contains(f.Found, "role "+name+" allows 5") {
		t.Errorf("found %+v", f)
	}
	execute(t, at, f.Fix)
	if f := diagnose(t, asRole, DoctorConfig{})["connections"]; strings.Contains(f.Found, name) {
		t.Errorf("after the fix: %+v", f)
	}
}

func schemaOf(t *testing.T, at string) string {
	t.Helper()
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	return u.Query().Get("search_path")
}

func TestWhoCanNotConnectIsToldWhichWordIsWrongAndWhatMendsIt(t *testing.T) {
	at := DatabaseForTest(t)
	name, asRole := role(t, at, "")
	u, err := url.Parse(asRole)
	if err != nil {
		t.Fatal(err)
	}
	with := func(change func(u *url.URL)) string {
		other := *u
		change(&other)
		return other.String()
	}
	for _, c := range []struct{ at, cause, fix string }{
		{as(t, at, name, "canary-wrong"), "password authentication failed", "ALTER ROLE " + name + " PASSWORD"},
		{as(t, at, "test_nobody", "canary"), "password authentication failed", "put the right password"},
		{with(func(u *url.URL) { u.Path = "/canary_none" }), `"canary_none" does not exist`, "CREATE DATABASE canary_none OWNER " + name},
		{with(func(u *url.URL) { u.Host = "127.0.0.1:1" }), "nothing listens there", "start the server"},
		{with(func(u *url.URL) { u.Host = "host.invalid:5432" }), "can't be resolved", "the right host"},
		{with(func(u *url.URL) { u.RawQuery = "sslmode=require" }), "refused TLS", "sslmode"},
		{"postgres://a:canary@127.0.0.1:x/d", "can't be read", "postgres://user:password@host"},
	} {
		_, err := NewDoctor(c.at, DoctorConfig{}).Check(t.Context())
		if err == nil || !strings.Contains(err.Error(), c.cause) || !strings.Contains(err.Error(), c.fix) {
			t.Errorf("says %v; want %s, %s", err, c.cause, c.fix)
			continue
		}
		if said := strings.ReplaceAll(err.Error(), "canary_none", ""); strings.Contains(said, "canary") || strings.Contains(said, "\n") {
			t.Errorf("shows a password, or is no sentence: %v", err)
		}
	}
	execute(t, at, "ALTER ROLE "+name+" NOLOGIN")
	if _, err := NewDoctor(asRole, DoctorConfig{}).Check(t.Context()); err == nil || !strings.Contains(err.Error(), "ALTER ROLE "+name+" LOGIN") {
		t.Errorf("a role that may not log in: %v", err)
	}
}
