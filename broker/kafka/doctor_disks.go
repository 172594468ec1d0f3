package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/settlemq/settle/doctor"
)

const (
	// A node whose disk is full ends; with less than these it is soon.
	lowBytes, lowPercent = 2 << 30, 5
	fullBytes            = 256 << 20
)

// disk is a folder in which a node keeps records, on a volume of so many bytes.
type disk struct {
	node        int32
	dir         string
	failed      bool
	total, free int64
}

func (x *examination) seeDisks(ctx context.Context, cl *kgo.Client) error {
	var failed error
	for _, node := range x.nodes {
		// No topic is named: their sizes are not of interest.
		req := kmsg.NewPtrDescribeLogDirsRequest()
		req.Topics = []kmsg.DescribeLogDirsRequestTopic{}
		answer, err := req.RequestWith(ctx, cl.Broker(int(node)))
		if err == nil {
			err = kerr.ErrorForCode(answer.ErrorCode)
		}
		if err != nil {
			failed = err
			continue
		}
		for _, d := range answer.Dirs {
			x.disks = append(x.disks, disk{node: node, dir: d.Dir, failed: d.ErrorCode != 0, total: d.TotalBytes, free: d.UsableBytes})
		}
	}
	if len(x.disks) > 0 {
		return nil
	}
	return failed
}

func (x *examination) freeSpace() (doctor.Diagnosis, error) {
	if x.disksErr != nil {
		return doctor.Diagnosis{}, x.disksErr
	}
	// Clusters before 3.3 tell of folders and not of space.
	if !slices.ContainsFunc(x.disks, func(d disk) bool { return d.failed || d.total > 0 }) {
		return doctor.Diagnosis{}, errors.New("the nodes do not tell how much space there is")
	}
	var p doctor.Problems
	for _, d := range x.disks {
		at := fmt.Sprintf("%s of node %d", d.dir, d.node)
		const room = "make room or add a volume; a topic that is kept for less time (retention.ms) takes less"
		switch {
		case d.failed:
			p.Add(doctor.Bad, at, "failed, the node goes on without it", "look at the disk and the node's log; then restart the node")
		case d.total <= 0:
		case d.free < fullBytes:
			p.Add(doctor.Bad, at, "nearly full: less than 256 MiB are free", room)
		case d.free < lowBytes && d.free*100 < d.total*lowPercent:
			p.Add(doctor.Warn, at, "less than 2 GiB and 5 % are free", room)
		}
	}
	return p.Diagnosis("there is room on all of them"), nil
}
