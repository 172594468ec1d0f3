package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

func TestTheQuickstartPrintsItsOneEffect(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "quickstart")
	if out, err := exec.Command("go", "build", "-o", bin, ".").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	cmd := exec.CommandContext(t.Context(), bin)
	cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir())
	var logged bytes.Buffer
	cmd.Stderr = &logged
	out, err := cmd.Output()
	if err != nil || string(out) != "thank you for o-1\n" {
		t.Errorf("printed %q, %v\n%s", out, err, logged.String())
	}
}

func TestTheQuickstartFitsOnAScreen(t *testing.T) {
	b, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(b, []byte("\n")); n > 60 {
		t.Errorf("main.go has %d lines; at most 60", n)
	}
}
