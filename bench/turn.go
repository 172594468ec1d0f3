package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"time"

	"github.com/settlemq/settle"
)

// turnWord is the first argument of a process in which a way has its turn.
const turnWord = "turn"

// turnPatience is how long a way may count nothing before it is given up.
const turnPatience = 30 * time.Second

// turn runs a way in a process of its own.
func (k task) turn(ctx context.Context, target, act, name string) (out passage, err error) {
	program, err := os.Executable()
	if err != nil {
		return out, err
	}
	asked, err := json.Marshal(k)
	if err != nil {
		return out, err
	}
	cmd := exec.CommandContext(ctx, program, turnWord, target, act, name, string(asked))
	// Not an argument: it may hold a password, and arguments are seen by all.
	cmd.Env = append(os.Environ(), "SETTLE_BENCH_BROKER="+k.URL)
	said := &tail{}
	cmd.Stderr = said
	answer, err := cmd.Output()
	if err != nil {
		return out, fmt.Errorf("%w: %s", err, said)
	}
	return out, json.Unmarshal(answer, &out)
}

// takeTurn is the main of such a process.
func takeTurn(args []string) error {
	if len(args) != 4 {
		return errors.New("turn is not for people")
	}
	t, _ := targetOf(args[0])
	w, found := t.way(args[1], args[2])
	if !found {
		return errors.New("there is no way " + args[0] + " " + args[1] + " " + args[2])
	}
	k := task{URL: os.Getenv("SETTLE_BENCH_BROKER")}
	if err := json.Unmarshal([]byte(args[3]), &k); err != nil {
		return err
	}
	out, err := k.do(context.Background(), w)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(out)
}

// do lets a way do the task in this process.
func (k task) do(ctx context.Context, w way) (passage, error) {
	k.meter = newMeter(k.Events, k.Of, k.Warm, k.Keys)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go k.meter.watch(ctx, cancel)
	if err := w.run(ctx, k); err != nil {
		return passage{}, errors.Join(context.Cause(ctx), err)
	}
	return k.meter.passage()
}

// watch ends the turn when all events were there, or when none came for long.
func (m *meter) watch(ctx context.Context, end context.CancelCauseFunc) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	last, since := int64(-1), time.Now()
	for {
		select {
		case <-m.done:
			end(nil)
			return
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if now := m.counted.Load(); now != last {
			last, since = now, time.Now()
		}
		if time.Since(since) > turnPatience {
			end(fmt.Errorf("only %d of %d events came", last, m.events))
			return
		}
	}
}

// messages are the task's events as a relay would hand them over. They are made
// before anything is measured.
func (k task) messages() []settle.Message {
	all := make([]settle.Message, k.Events)
	now := time.Now()
	for n := range all {
		key := eventKey(n, k.Keys)
		e := &settle.Event{ID: eventID(n), Type: eventType, AggregateType: "order", AggregateID: key, BizKey: key,
			OccurredAt: now, AppendedAt: now, Version: 1, Topic: k.Topic, ContentType: settle.ContentTypeJSON, Payload: payload(n)}
		all[n] = settle.Message{ID: e.ID, Event: e, Epoch: 1, Source: "bench"}
	}
	runtime.GC()
	return all
}

// byKey deals messages out to so many hands, those of a key to one.
func byKey(all []settle.Message, hands int) [][]settle.Message {
	dealt := make([][]settle.Message, hands)
	for _, m := range all {
		n := settle.PartitionOf(m.Event.AggregateID, hands)
		dealt[n] = append(dealt[n], m)
	}
	return dealt
}
