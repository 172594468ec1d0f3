package rocketmq

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/settlemq/settle"
)

// queue is where a part of a topic's messages are: queue id of a broker, by the
// name that a master and its slaves share.
type queue struct {
	broker string
	id     int
}

func (q queue) String() string { return q.broker + "/" + strconv.Itoa(q.id) }

// layout lists the queues of a topic. Partition n is queues[n]. Keys go to the
// first fixed of them; what is behind was made later, or by others, and is read.
type layout struct {
	queues []queue
	fixed  int
	// ordered is whether name servers keep the list. Without it a node that is down
	// takes its queues from the list with it.
	ordered bool
}

// layoutOf puts together what the name servers keep of a topic, the queues to which
// brokers let write and from which they let read, and those which were known before:
// what is away for a moment keeps its place.
func layoutOf(order string, writable, readable []queue, before layout) layout {
	var l layout
	if fixed, err := parseOrder(order); err == nil && len(fixed) > 0 {
		l = layout{queues: fixed, ordered: true}
	} else if before.ordered {
		// A name server that was away when the list was made does not have it.
		l = layout{queues: slices.Clone(before.queues[:before.fixed]), ordered: true}
	} else {
		l.add(writable, before.queues[:before.fixed])
	}
	l.fixed = len(l.queues)
	l.add(writable, readable, before.queues)
	return l
}

// add appends the queues that are missing, in their order.
func (l *layout) add(lists ...[]queue) {
	more := slices.Concat(lists...)
	slices.SortFunc(more, compareQueues)
	for _, q := range more {
		if !slices.Contains(l.queues, q) {
			l.queues = append(l.queues, q)
		}
	}
}

func compareQueues(a, b queue) int {
	return cmp.Or(strings.Compare(a.broker, b.broker), a.id-b.id)
}

// partitionOf returns where the records of a key go.
func (l layout) partitionOf(key string) int { return settle.PartitionOf(key, l.fixed) }

// parseOrder reads a list as Java's clients do: broker-a:8;broker-b:8.
func parseOrder(order string) ([]queue, error) {
	var queues []queue
	for part := range strings.SplitSeq(order, ";") {
		if part == "" {
			continue
		}
		at := strings.LastIndexByte(part, ':')
		if at <= 0 {
			return nil, fmt.Errorf("%q is not broker:queues", part)
		}
		n, err := strconv.Atoi(part[at+1:])
		if err != nil || n < 0 || n > maxQueues {
			return nil, fmt.Errorf("%q is not broker:queues", part)
		}
		for id := range n {
			queues = append(queues, queue{broker: part[:at], id: id})
		}
	}
	return queues, nil
}

// maxQueues bounds what is believed of one broker's queues of a topic.
const maxQueues = 4096

// formatOrder writes what parseOrder reads. The queues of a broker count from 0.
func formatOrder(queues []queue) string {
	counts, names := map[string]int{}, []string{}
	for _, q := range queues {
		if counts[q.broker] == 0 {
			names = append(names, q.broker)
		}
		counts[q.broker] = max(counts[q.broker], q.id+1)
	}
	slices.Sort(names)
	for i, name := range names {
		names[i] = name + ":" + strconv.Itoa(counts[name])
	}
	return strings.Join(names, ";")
}
