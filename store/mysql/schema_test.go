package mysql

import (
	"context"
	"testing"
	"time"
)

func TestTheLockOfAMigrationIsGivenBack(t *testing.T) {
	at := DatabaseForTest(t)
	cfg, err := parseURL(at)
	if err != nil {
		t.Fatal(err)
	}
	db, err := pool(cfg, nil, 4, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	unlock, err := lockMigrations(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := lockMigrations(ctx, db); err == nil {
		t.Fatal("two have the lock")
	}
	if err := unlock(); err != nil {
		t.Fatal(err)
	}
	var free bool
	if err := OpenForTest(t, at, Config{}).DB().QueryRowContext(t.Context(), `SELECT IS_FREE_LOCK(CONCAT('settle.migrate.', MD5(DATABASE())))`).Scan(&free); err != nil || !free {
		t.Errorf("after it was given back the lock is free: %v, %v", free, err)
	}
}
