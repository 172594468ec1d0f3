package rabbitmq

import (
	"errors"
	"fmt"

	"github.com/settlemq/settle/doctor"
)

const (
	// wantedCopies outlive a node that is lost while another is restarted.
	wantedCopies = 3
	// diskLimitAtLeast is the room that a node keeps free: its logs and the
	// queues' go on growing while publishers are being stopped.
	diskLimitAtLeast = 1 << 30
	// memoryAtLeast is below what a node needs by itself.
	memoryAtLeast = 256 << 20
)

func (x *examination) nodeChecks() []check {
	return []check{
		{"nodes", "three copies of an event need three nodes: two of them go on while one is away", x.enoughNodes},
		{"network_partitions", "nodes that do not see each other go on with what they know, and one side may lose it", x.divided},
		{"alarms", "while one lasts, nothing can be published", x.alarms},
		{"disk_limit", "a node whose disk is full ends, and what it was writing is torn", x.diskLimit},
		{"memory_limit", "above it nothing can be published; far below what the machine has that is soon, and without it the system kills the node", x.memoryLimit},
		{"feature_flags", "what is not enabled behaves as in an older version, and keeps the next one from starting", x.featureFlags},
	}
}

func (x *examination) running() (all []nodeSeen) {
	for _, n := range x.nodes {
		if n.Running {
			all = append(all, n)
		}
	}
	return all
}

func (x *examination) enoughNodes() (doctor.Diagnosis, error) {
	if x.nodesErr != nil {
		return doctor.Diagnosis{}, x.nodesErr
	}
	var away []string
	for _, n := range x.nodes {
		if !n.Running {
			away = append(away, n.Name)
		}
	}
	switch n := len(x.nodes); {
	case len(away) > 0:
		return doctor.Diagnose(doctor.Warn, fmt.Sprintf("%d of %d do not run: %s", len(away), n, doctor.Enumerated(away)), "start them, or take them out with rabbitmqctl forget_cluster_node"), nil
	case n == 1:
		return doctor.Diagnose(doctor.Warn, "1: while it is away, nothing is published or read", "run three, each on a machine of its own"), nil
	case n == 2:
		return doctor.Diagnose(doctor.Warn, "2: while one of them is away, there is no majority, and nothing is published or read", "run three, or one"), nil
	default:
		return doctor.Sound("%d", n), nil
	}
}

// divided can't see cluster_partition_handling: only a node's own tools do.
func (x *examination) divided() (doctor.Diagnosis, error) {
	if x.nodesErr != nil {
		return doctor.Diagnosis{}, x.nodesErr
	}
	for _, n := range x.nodes {
		if len(n.Partitions) > 0 {
			return doctor.Diagnose(doctor.Bad, fmt.Sprintf("%s does not see %s", n.Name, doctor.Enumerated(n.Partitions)), "mend the network; then restart the nodes of the side that is to forget, the smaller one"), nil
		}
	}
	_, major, _ := x.serverVersion()
	switch {
	case len(x.nodes) == 1:
		return doctor.Sound("one node"), nil
	case major >= keptMajor:
		return doctor.Sound("nodes see each other"), nil
	}
	return doctor.Diagnose(doctor.Warn, "nodes see each other; what they do when they don't (cluster_partition_handling, ignore by default) the API does not tell",
			"rabbitmqctl eval 'application:get_env(rabbit, cluster_partition_handling).' tells; have cluster_partition_handling = pause_minority in rabbitmq.conf of every node"),
		nil
}

// each judges every running node.
func (x *examination) each(judge func(n nodeSeen, p *doctor.Problems) error, good string) (doctor.Diagnosis, error) {
	if x.nodesErr != nil {
		return doctor.Diagnosis{}, x.nodesErr
	}
	var p doctor.Problems
	for _, n := range x.running() {
		if err := judge(n, &p); err != nil {
			return doctor.Diagnosis{}, err
		}
	}
	return p.Diagnosis("%s", good), nil
}

var errNoFigures = errors.New("the node has just started and tells no figures yet")

func (x *examination) alarms() (doctor.Diagnosis, error) {
	return x.each(func(n nodeSeen, p *doctor.Problems) error {
		if n.MemLimit == nil {
			return errNoFigures
		}
		if n.MemAlarm {
			p.Add(doctor.Bad, n.Name, "memory", "find out what takes it (rabbitmq-diagnostics memory_breakdown), let consumers catch up, or give the node more and raise vm_memory_high_watermark")
		}
		if n.DiskAlarm {
			p.Add(doctor.Bad, n.Name, "disk", "make room or add a volume")
		}
		return nil
	}, "none")
}

func (x *examination) diskLimit() (doctor.Diagnosis, error) {
	return x.each(func(n nodeSeen, p *doctor.Problems) error {
		if n.DiskLimit == nil || n.DiskFree == nil {
			return errNoFigures
		}
		switch limit, free := *n.DiskLimit, *n.DiskFree; {
		case limit < diskLimitAtLeast:
			p.Add(doctor.Warn, n.Name, fmt.Sprintf("publishing stops only when %d bytes are left", limit), "disk_free_limit.absolute = 2GB in rabbitmq.conf, or as much as the node's memory; until its next start rabbitmqctl set_disk_free_limit 2GB")
		case free < 2*limit && !n.DiskAlarm:
			p.Add(doctor.Warn, n.Name, fmt.Sprintf("%d bytes are free, publishing stops at %d", free, limit), "make room or add a volume")
		}
		return nil
	}, "there is room, and publishing stops before it is used up")
}

func (x *examination) memoryLimit() (doctor.Diagnosis, error) {
	return x.each(func(n nodeSeen, p *doctor.Problems) error {
		if n.MemLimit == nil || n.MemUsed == nil {
			return errNoFigures
		}
		const more = "vm_memory_high_watermark.relative = 0.6 in rabbitmq.conf where the machine is the node's alone; until its next start rabbitmqctl set_vm_memory_high_watermark 0.6"
		switch limit, used := *n.MemLimit, *n.MemUsed; {
		case n.MemAlarm: // which alarms tells
		case limit < memoryAtLeast:
			p.Add(doctor.Warn, n.Name, fmt.Sprintf("publishing stops at %d bytes, which a node takes by itself", limit), more)
		case used > limit/5*4:
			p.Add(doctor.Warn, n.Name, fmt.Sprintf("%d bytes are used, publishing stops at %d", used, limit), "let consumers catch up; "+more)
		}
		return nil
	}, "there is room")
}

func (x *examination) featureFlags() (doctor.Diagnosis, error) {
	if x.flagsErr != nil {
		return doctor.Diagnosis{}, x.flagsErr
	}
	var p doctor.Problems
	for _, f := range x.flags {
		if f.State == "enabled" || f.Stability != "stable" && f.Stability != "required" {
			continue
		}
		verdict, found := doctor.Warn, "not enabled"
		if f.Name == "quorum_queue" {
			verdict, found = doctor.Bad, "not enabled, without which there are no quorum queues"
		}
		p.Add(verdict, f.Name, found, "when all nodes have the same version: rabbitmqctl enable_feature_flag all")
	}
	return p.Diagnosis("all are enabled"), nil
}
