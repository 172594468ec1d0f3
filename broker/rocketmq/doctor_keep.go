package rocketmq

import (
	"fmt"
	"strconv"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/doctor"
)

const (
	// checksAtLeast is for how long a half message whose producer does not answer is
	// asked for, at least: a short outage is not to be its end.
	checksAtLeast = 5 * time.Minute
	// fullSoon is how near to a limit a disk is called full.
	fullSoon = 0.05
	// bodyRoom is what the largest event has beside its body, in bytes.
	bodyRoom = 64 << 10
)

func (x *examination) keepChecks() []check {
	return []check{
		{"file_reserved_time", "what is older is gone, read or not: a consumer that was away for longer has lost it, and it can't be replayed", x.reserved},
		{"disk", "a node whose disk is full deletes what consumers have not read, and then takes nothing any more", x.diskFull},
		{"max_message_size", "an outbox accepts events up to a size; one that the broker refuses becomes a dead letter and holds its key", x.maxMessage},
		{"transactions", "a half message that nobody answers for in time is put away, committed or not; the outbox needs none of this", x.transactions},
	}
}

func (x *examination) reserved() (doctor.Diagnosis, error) {
	return x.eachMaster(func(n nodeSeen, p *doctor.Problems) error {
		hours, err := n.number("fileReservedTime")
		if err != nil {
			return err
		}
		if kept := time.Duration(hours) * time.Hour; kept < x.cfg.KeepFor {
			want := int64((x.cfg.KeepFor + time.Hour - 1) / time.Hour)
			p.Add(doctor.Bad, n.Name, fmt.Sprintf("messages are kept for %s, and must be readable for %s", span(kept), span(x.cfg.KeepFor)), x.setting(n, "fileReservedTime", strconv.FormatInt(want, 10)))
		}
		return nil
	}, "messages are kept for %s or longer", span(x.cfg.KeepFor))
}

func (x *examination) diskFull() (doctor.Diagnosis, error) {
	return x.eachMaster(func(n nodeSeen, p *doctor.Problems) error {
		if n.stateErr != nil {
			return n.stateErr
		}
		used, err := strconv.ParseFloat(n.state["commitLogDiskRatio"], 64)
		if err != nil {
			return fmt.Errorf("read how full the disk of %s is: %w", n.Name, err)
		}
		stops, err := n.number("diskSpaceWarningLevelRatio")
		if err != nil {
			return err
		}
		deletes, err := n.number("diskSpaceCleanForciblyRatio")
		if err != nil {
			return err
		}
		found := fmt.Sprintf("%.0f %% of the disk are used; at %d %% the oldest messages are deleted before their time, at %d %% no more are taken", used*100, deletes, stops)
		const room = "make room or add a volume; a shorter fileReservedTime takes less"
		switch limit := float64(min(deletes, stops)) / 100; {
		case used < 0: // it does not know
		case used >= limit:
			p.Add(doctor.Bad, n.Name, found, room)
		case used >= limit-fullSoon:
			p.Add(doctor.Warn, n.Name, found, room)
		}
		return nil
	}, "there is room on all of them")
}

func (x *examination) maxMessage() (doctor.Diagnosis, error) {
	return x.eachMaster(func(n nodeSeen, p *doctor.Problems) error {
		most, err := n.number("maxMessageSize")
		if err == nil && most < settle.MaxEnvelope+bodyRoom {
			p.Add(doctor.Bad, n.Name, fmt.Sprintf("%d bytes, the largest event takes %d", most, settle.MaxEnvelope+bodyRoom), x.setting(n, "maxMessageSize", strconv.Itoa(4<<20)))
		}
		return err
	}, "the largest event has room")
}

func (x *examination) transactions() (doctor.Diagnosis, error) {
	return x.eachMaster(func(n nodeSeen, p *doctor.Problems) error {
		if n.settings["rejectTransactionMessage"] == "true" {
			p.Add(doctor.Warn, n.Name, "half messages are refused (rejectTransactionMessage)", x.setting(n, "rejectTransactionMessage", "false"))
		}
		timeOut, err := n.millis("transactionTimeOut")
		if err != nil {
			return err
		}
		batch, err := n.millis("transactionOpBatchInterval")
		if err == nil && 2*batch > timeOut {
			p.Add(doctor.Warn, n.Name, fmt.Sprintf("that a half message is finished is noted up to %s late (transactionOpBatchInterval), and it is asked for after %s (transactionTimeOut): finished ones are asked for again and again", batch, timeOut),
				x.setting(n, "transactionOpBatchInterval", strconv.FormatInt(max(timeOut.Milliseconds()/4, 1), 10)))
		}
		every, err := n.millis("transactionCheckInterval")
		if err != nil {
			return err
		}
		times, err := n.number("transactionCheckMax")
		if err != nil {
			return err
		}
		if lasts := time.Duration(times) * every; lasts < checksAtLeast {
			p.Add(doctor.Warn, n.Name, fmt.Sprintf("a half message is given up after %d sweeps of %s, so %s: each counts, also while no producer is there", times, every, lasts), x.setting(n, "transactionCheckMax", strconv.FormatInt(int64((2*checksAtLeast)/max(every, time.Millisecond)), 10)))
		}
		return nil
	}, "finished half messages are noted in time, and others asked for %s or longer", checksAtLeast)
}

func (n nodeSeen) millis(setting string) (time.Duration, error) {
	ms, err := n.number(setting)
	return time.Duration(ms) * time.Millisecond, err
}

// span writes a time in days where it is some.
func span(d time.Duration) string {
	if d >= 24*time.Hour && d%(24*time.Hour) == 0 {
		return fmt.Sprintf("%d d", d/(24*time.Hour))
	}
	return d.String()
}
