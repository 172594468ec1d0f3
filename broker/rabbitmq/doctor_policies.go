package rabbitmq

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"

	"github.com/settlemq/settle/doctor"
)

// policy is a policy, or an operator's, which is in force beside it.
type policy struct {
	Name       string         `json:"name"`
	Pattern    string         `json:"pattern"`
	ApplyTo    string         `json:"apply-to"`
	Priority   int            `json:"priority"`
	Definition map[string]any `json:"definition"`

	operator bool
	matches  *regexp.Regexp
}

func (x *examination) seePolicies(ctx context.Context) error {
	for kind, operator := range map[string]bool{"policies": false, "operator-policies": true} {
		var all []policy
		if _, err := x.api.get(ctx, x.inVhost(kind), &all); err != nil {
			return err
		}
		for _, p := range all {
			var err error
			if p.matches, err = regexp.Compile(p.Pattern); err != nil {
				return fmt.Errorf("the pattern of policy %q can't be read here", p.Name)
			}
			p.operator = operator
			x.policies = append(x.policies, p)
		}
	}
	// Of those that match one is in force: that of the highest priority.
	slices.SortStableFunc(x.policies, func(a, b policy) int { return b.Priority - a.Priority })
	return nil
}

// inForce returns the policy and the operator's that apply to a name.
func (x *examination) inForce(name string, applyTo ...string) (all []policy) {
	seen := map[bool]bool{}
	for _, p := range x.policies {
		if !seen[p.operator] && slices.Contains(append(applyTo, "all"), p.ApplyTo) && p.matches.MatchString(name) {
			seen[p.operator] = true
			all = append(all, p)
		}
	}
	return all
}

func (p policy) clear(vhost string) string {
	act := "clear_policy"
	if p.operator {
		act = "clear_operator_policy"
	}
	return fmt.Sprintf("rabbitmqctl %s -p %s %s, or let its pattern leave these out", act, shellWord(vhost), shellWord(p.Name))
}

// harm is what a setting of a policy does to Settle's queues.
func (p policy) harm(setting string, value any) (doctor.Verdict, string) {
	number, _ := value.(float64)
	switch setting {
	case "message-ttl":
		return doctor.Bad, fmt.Sprintf("drops what has waited %v ms", value)
	case "expires":
		return doctor.Bad, fmt.Sprintf("deletes a queue that nobody has used for %v ms, and what is in it", value)
	case "overflow":
		if value != "reject-publish" {
			return doctor.Bad, fmt.Sprintf("overflow %v: a full queue drops events that were acknowledged", value)
		}
	case "max-length", "max-length-bytes":
		return doctor.Warn, fmt.Sprintf("%s %v: from there on the topic takes nothing for any group", setting, value)
	case "delivery-limit":
		if number < float64(Config{}.withDefaults().DeliveryLimit) {
			return doctor.Bad, fmt.Sprintf("delivery-limit %v: so many lost connections make dead letters of what was in a consumer's hands", value)
		}
	case "dead-letter-exchange", "dead-letter-routing-key":
		return doctor.Bad, fmt.Sprintf("%s %v: what is delivered too often goes elsewhere than to the group's dead ones", setting, value)
	case "dead-letter-strategy":
		if value != "at-least-once" {
			return doctor.Bad, fmt.Sprintf("dead-letter-strategy %v: what is delivered too often may be lost on its way", value)
		}
	}
	return doctor.OK, ""
}

// consumerTimeoutAtLeast is in ms; the server's own is 30 minutes.
const consumerTimeoutAtLeast = 5 * 60 * 1000

func (x *examination) queuePolicies() (doctor.Diagnosis, error) {
	if err := x.cantSeePolicies(); err != nil {
		return doctor.Diagnosis{}, err
	}
	var p doctor.Problems
	for _, q := range x.own() {
		for _, in := range x.inForce(q.Name, "queues", "quorum_queues") {
			for _, setting := range slices.Sorted(maps.Keys(in.Definition)) {
				if verdict, harm := in.harm(setting, in.Definition[setting]); verdict != doctor.OK {
					p.Add(verdict, q.Name, fmt.Sprintf("policy %q %s", in.Name, harm), in.clear(x.at.vhost))
				}
			}
		}
	}
	return p.Diagnosis("none takes from what the queues are declared with"), nil
}

func (x *examination) cantSeePolicies() error {
	if x.topologyErr != nil {
		return x.topologyErr
	}
	return x.policiesErr
}
