package rocketmq

import (
	"fmt"

	"github.com/settlemq/settle/doctor"
)

const (
	// copiesWanted is how many nodes have an event before it counts.
	copiesWanted = 2
	roleAsync    = "ASYNC_MASTER"
	flushAsync   = "ASYNC_FLUSH"
)

func (x *examination) copyChecks() []check {
	return []check{
		{"flush_disk", "what was acknowledged from memory is lost with the power", x.flushDisk},
		{"replication", "what one node has is lost with its disk", x.replication},
		{"slaves_now", "a slave that is behind lacks what its master would lose", x.slavesNow},
	}
}

func (x *examination) flushDisk() (doctor.Diagnosis, error) {
	return x.eachMaster(func(n nodeSeen, p *doctor.Problems) error {
		kind, err := n.text("flushDiskType")
		if err != nil || kind != flushAsync {
			return err
		}
		const fix = "flushDiskType=SYNC_FLUSH in the node's file, and restart it"
		bad, err := x.oneCopy(n)
		if err != nil {
			return err
		}
		if bad != "" {
			p.Add(doctor.Bad, n.Name, "acknowledged from the memory of one node (ASYNC_FLUSH)", fix)
		} else {
			p.Add(doctor.Warn, n.Name, "acknowledged from memory (ASYNC_FLUSH): a power cut that takes the slave, too, takes the last half second", fix)
		}
		return nil
	}, "written before it counts (SYNC_FLUSH)")
}

// oneCopy says why an acknowledgement of a master proves one copy only; it is empty
// when it proves more.
func (x *examination) oneCopy(n nodeSeen) (string, error) {
	role, err := n.text("brokerRole")
	if err != nil {
		return "", err
	}
	least, err := n.waitsFor()
	switch {
	case n.settings["enableDLegerCommitLog"] == "true":
		return "", nil // a majority has it
	case err != nil:
		return "", err
	case x.slaves(n.Name) == 0:
		return "one copy, which dies with its disk: there is no slave", nil
	case n.settings["enableControllerMode"] == "true":
		if n.settings["allAckInSyncStateSet"] != "true" {
			return "controllers choose the master, which acknowledges what no slave has (allAckInSyncStateSet=false)", nil
		}
		if least < copiesWanted {
			return "the master acknowledges alone when its slaves are behind (minInSyncReplicas=1)", nil
		}
	case role == roleAsync:
		return "acknowledged before a slave has it (ASYNC_MASTER)", nil
	case least < copiesWanted:
		return "SYNC_MASTER waits for no slave while inSyncReplicas is 1, as it is unless it is set", nil
	}
	return "", nil
}

// waitsFor is how many nodes must have a message before a master acknowledges it,
// itself among them, where its role has it wait at all. Servers before RocketMQ 5
// have no setting and wait for one slave.
func (n nodeSeen) waitsFor() (int64, error) {
	if n.settings["enableControllerMode"] == "true" || n.settings["enableAutoInSyncReplicas"] == "true" {
		return n.number("minInSyncReplicas")
	}
	if _, is := n.settings["inSyncReplicas"]; !is && n.settingsErr == nil {
		return copiesWanted, nil
	}
	return n.number("inSyncReplicas")
}

func (x *examination) replication() (doctor.Diagnosis, error) {
	return x.eachMaster(func(n nodeSeen, p *doctor.Problems) error {
		why, err := x.oneCopy(n)
		if err != nil {
			return err
		}
		if why != "" {
			p.Add(doctor.Bad, n.Name, why, x.secondCopy(n))
		}
		return nil
	}, "%d nodes have an event before it counts", copiesWanted)
}

// secondCopy is what makes a master wait for a slave.
func (x *examination) secondCopy(n nodeSeen) string {
	fix := ""
	if x.slaves(n.Name) == 0 {
		fix = fmt.Sprintf("start a slave on another machine (brokerName=%s, brokerId=1, brokerRole=SLAVE); then ", n.Name)
	}
	if n.settings["enableControllerMode"] == "true" {
		return fix + x.setting(n, "allAckInSyncStateSet", "true") + " and " + x.setting(n, "minInSyncReplicas", "2")
	}
	if n.settings["brokerRole"] == roleAsync {
		return fix + "brokerRole=SYNC_MASTER and inSyncReplicas=2 in the master's file, and restart it"
	}
	return fix + x.setting(n, "inSyncReplicas", "2")
}

func (x *examination) slavesNow() (doctor.Diagnosis, error) {
	return x.eachMaster(func(n nodeSeen, p *doctor.Problems) error {
		if n.copiesErr != nil {
			return n.copiesErr
		}
		have := x.slaves(n.Name)
		if n.copies.InSync >= have {
			return nil
		}
		found := fmt.Sprintf("%d of %d are with the master", n.copies.InSync, have)
		least, err := n.waitsFor()
		if err == nil && n.settings["brokerRole"] != roleAsync && int64(n.copies.InSync+1) < least {
			p.Add(doctor.Bad, n.Name, found+", and it takes nothing until more are", "look at the slave and its log; it reads from the master's haListenPort")
			return nil
		}
		p.Add(doctor.Warn, n.Name, found, "look at the slave and its log; it reads from the master's haListenPort")
		return nil
	}, "none is behind")
}
