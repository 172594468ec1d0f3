package server

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestNoFormOfASecretIsSeen(t *testing.T) {
	c := Config{
		Embedded: EmbeddedConfig{Token: "emb3dded"},
		Sources: map[string]SourceConfig{
			"a": {DB: "postgres://ann:p%40ss%22w%2F1@h/x?sslpassword=ssl-s3cret&search_path=app", Broker: "nats://t0ken@h:1"},
			"b": {DB: "postgres://ann:p%40ss%22w%2F1-and-more@h/x", Broker: "nats://u:us3r-password@h:1"},
			"c": {DB: "postgres://ann:us3r-a@a:1,b:2/x", Broker: "kafka://ann:us3r-k%2Cfk@a:1,b:2,[::1]:3?sasl=plain"},
		},
	}
	for _, text := range []string{
		`p@ss"w/1`, `p%40ss%22w%2F1`, `p@ss\"w/1`, "ssl-s3cret", "t0ken", "us3r-password", "emb3dded", "us3r-a", "us3r-k,fk", "us3r-k%2Cfk", `p@ss"w/1-and-more`,
		c.Sources["a"].DB, c.Sources["b"].DB,
	} {
		got := c.Hide("dial " + text + ": refused")
		for _, part := range []string{"ss%22", `ss"w`, `ss\"w`, "s3cret", "t0ken", "us3r", "emb3", "and-more", "fk"} {
			if strings.Contains(got, part) {
				t.Errorf("%s is shown as %s", text, got)
			}
		}
		if !strings.HasPrefix(got, "dial ") || !strings.HasSuffix(got, ": refused") {
			t.Errorf("%s is shown as %s; the rest must stay", text, got)
		}
	}
	if got := c.Hide("user ann, schema app, host h:1"); got != "user ann, schema app, host h:1" {
		t.Errorf("what is no secret is shown as %s", got)
	}
	if err := c.HideError(nil); err != nil {
		t.Errorf("no error became %v", err)
	}
	cause := errors.New("refused: t0ken")
	if err := c.HideError(cause); !errors.Is(err, cause) || err.Error() != "refused: ***" {
		t.Errorf("the error is %v", err)
	}
}

func TestNoSecretReachesTheLogHoweverItIsSaid(t *testing.T) {
	c := Config{Sources: map[string]SourceConfig{"a": {DB: "x://u:s3cret@h"}}}
	var out bytes.Buffer
	log := slog.New(maskingHandler{slog.NewJSONHandler(&out, nil), newMask(c)}).With("at", "s3cret").WithGroup("g").With("s", "s3cret")
	log.Warn("s3cret", "text", "a s3cret", "error", errors.New("no s3cret"), "list", []string{"s3cret"}, slog.Group("deep", "x", "s3cret"), "n", 7, "for", time.Second)
	if text := out.String(); strings.Contains(text, "s3cret") || strings.Count(text, "***") != 7 || !strings.Contains(text, `"n":7`) {
		t.Errorf("logged %s", text)
	}
}

func TestAComplaintIsSaidOnceAMinuteAndNotDuringAnOutage(t *testing.T) {
	var out bytes.Buffer
	away := false
	log := slog.New(newCalmHandler(slog.NewTextHandler(&out, nil), func() bool { return away })).With("source", "a")
	lines := func() int { return strings.Count(out.String(), "\n") }
	for range 5 {
		log.Warn("store call failed", "error", "x")
	}
	if lines() != 1 {
		t.Errorf("five complaints in a row are %d lines", lines())
	}
	log.Warn("broker did not take a message", "error", "x")
	if lines() != 2 {
		t.Error("another complaint is not said")
	}
	away = true
	log.Warn("something new", "error", "x")
	if lines() != 2 {
		t.Error("a complaint is said during an outage")
	}
	for range 3 { // each is about another event
		log.Warn("event became a dead letter", "cause", "x")
	}
	log.Error("stop", "error", "x")
	if lines() != 6 {
		t.Errorf("what is no complaint must pass:\n%s", out.String())
	}
}
