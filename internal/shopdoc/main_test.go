package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestThePageShowsTheTablesAsTheyAre(t *testing.T) {
	const path = "../../docs/shop.md"
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	drawn, err := draw(string(page))
	if err != nil {
		t.Fatal(err)
	}
	if drawn != string(page) {
		t.Error("docs/shop.md is out of date; run: go run ./internal/shopdoc")
	}
}

func TestAPageThatIsOutOfDateIsNoticedAndRedrawn(t *testing.T) {
	page, err := os.ReadFile("../../docs/shop.md")
	if err != nil {
		t.Fatal(err)
	}
	old := strings.Replace(string(page), "CREATED --> RESERVED: inventory.reserved", "CREATED --> RESERVED: inventory.kept", 1)
	path := filepath.Join(t.TempDir(), "shop.md")
	if err := os.WriteFile(path, []byte(old), 0o600); err != nil {
		t.Fatal(err)
	}
	if drawn, err := draw(old); err != nil || drawn == old {
		t.Errorf("an old page passes: %v", err)
	}
	if err := redraw(path); err != nil {
		t.Fatal(err)
	}
	if now, err := os.ReadFile(path); err != nil || strings.Contains(string(now), "inventory.kept") {
		t.Errorf("the old text is still there: %v", err)
	}
	if _, err := draw("no marks"); err == nil {
		t.Error("a page without a place for the drawings passes")
	}
}
