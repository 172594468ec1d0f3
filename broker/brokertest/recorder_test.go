package brokertest

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
)

// recorder is a testing.TB that keeps failures to itself, so that a test can
// ask whether a case has failed.
type recorder struct {
	testing.TB
	mu       sync.Mutex
	failures []string
	skipped  string
	ended    bool
	cleanups []func()
}

// record runs test and returns what it reported.
func record(t *testing.T, test func(t testing.TB)) *recorder {
	r := &recorder{TB: t}
	r.goexit(func() { test(r) })
	for len(r.cleanups) > 0 {
		last := r.cleanups[len(r.cleanups)-1]
		r.cleanups = r.cleanups[:len(r.cleanups)-1]
		r.goexit(last)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
	return r
}

// goexit runs f where runtime.Goexit ends f alone.
func (r *recorder) goexit(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	<-done
}

func (r *recorder) Helper()                   {}
func (r *recorder) Log(...any)                {}
func (r *recorder) Logf(string, ...any)       {}
func (r *recorder) Cleanup(f func())          { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Error(v ...any)            { r.fail(fmt.Sprint(v...)) }
func (r *recorder) Errorf(f string, v ...any) { r.fail(fmt.Sprintf(f, v...)) }

func (r *recorder) Fatal(v ...any) {
	r.fail(fmt.Sprint(v...))
	runtime.Goexit()
}

func (r *recorder) Fatalf(f string, v ...any) {
	r.fail(fmt.Sprintf(f, v...))
	runtime.Goexit()
}

func (r *recorder) Skip(v ...any) {
	r.skipped = fmt.Sprint(v...)
	runtime.Goexit()
}

func (r *recorder) Skipf(f string, v ...any) {
	r.skipped = fmt.Sprintf(f, v...)
	runtime.Goexit()
}

func (r *recorder) fail(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		panic("a case reports after it has ended: " + what)
	}
	r.failures = append(r.failures, what)
}
