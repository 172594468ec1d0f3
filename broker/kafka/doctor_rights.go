package kafka

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/settlemq/settle/doctor"
)

func (x *examination) rightChecks() []check {
	return []check{
		{"topic_rights", "a relay writes, a consumer reads", x.topicRights},
		{"group_rights", "a consumer joins its group and commits positions with the right to read it", x.groupRights},
	}
}

func (x *examination) topicRights() (doctor.Diagnosis, error) {
	var p doctor.Problems
	for _, t := range x.topics {
		switch writes, reads := slices.Contains(t.may, kmsg.ACLOperationWrite), slices.Contains(t.may, kmsg.ACLOperationRead); {
		case t.may == nil:
			p.Add(doctor.Warn, t.name, "the cluster does not tell what this account may", "clusters from 2.3 on do; try with a record of your own")
		case !writes && !reads:
			p.Add(doctor.Bad, t.name, "this account may neither write nor read", x.tools.grant([]string{"Write", "Read", "Describe"}, "--topic "+t.name))
		case !writes:
			p.Add(doctor.Warn, t.name, "this account may read and not write: a relay can't use it", x.tools.grant([]string{"Write"}, "--topic "+t.name))
		case !reads:
			p.Add(doctor.Warn, t.name, "this account may write and not read: a consumer can't use it", x.tools.grant([]string{"Read"}, "--topic "+t.name))
		}
	}
	for _, name := range x.hidden {
		p.Add(doctor.Bad, name, "this account may not even see", x.tools.grant([]string{"Write", "Read", "Describe", "DescribeConfigs"}, "--topic "+name))
	}
	return p.Diagnosis("this account may write and read what it sees"), nil
}

func (x *examination) groupRights() (doctor.Diagnosis, error) {
	if x.groupsErr != nil {
		return doctor.Diagnosis{}, x.groupsErr
	}
	var p doctor.Problems
	for _, name := range slices.Sorted(maps.Keys(x.groups)) {
		// Only a group that may be seen tells what may be done with it.
		if may := x.groups[name]; may != nil && !slices.Contains(may, kadm.ACLOperation(kmsg.ACLOperationRead)) {
			p.Add(doctor.Warn, name, "this account may see and not join", x.tools.grant([]string{"Read"}, "--group '"+strings.ReplaceAll(name, "'", "")+"'"))
		}
	}
	if len(x.groups) == 0 {
		return doctor.Sound("no group is seen"), nil
	}
	return p.Diagnosis("%s", fmt.Sprintf("this account may join the %d that it sees", len(x.groups))), nil
}
