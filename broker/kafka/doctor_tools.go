package kafka

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// tools writes the commands of Kafka's own tools that mend something.
type tools struct {
	// at are the options that lead to the cluster, principal is whom its rights
	// know this account as.
	at, principal string
}

func toolsOf(rawURL string, at address) tools {
	t := tools{at: "--bootstrap-server " + strings.Join(at.hosts, ","), principal: "User:ANONYMOUS"}
	if at.sasl != nil {
		t.principal = "User:" + strings.ReplaceAll(loginOf(rawURL), "'", "")
	}
	if at.sasl != nil || at.tls != nil {
		t.at += " --command-config admin.properties"
	}
	return t
}

// loginOf is the user that a URL names, which is no secret.
func loginOf(rawURL string) string {
	rest, _, _ := strings.Cut(strings.TrimPrefix(rawURL, "kafka://"), "?")
	rest, _, _ = strings.Cut(rest, "/")
	at := strings.LastIndex(rest, "@")
	if at < 0 {
		return ""
	}
	name, _, _ := strings.Cut(rest[:at], ":")
	if plain, err := url.PathUnescape(name); err == nil {
		return plain
	}
	return name
}

func (t tools) set(topic, setting, value string) string {
	if strings.Contains(value, ",") {
		value = "[" + value + "]"
	}
	return fmt.Sprintf("kafka-configs.sh %s --alter --entity-type topics --entity-name %s --add-config %s=%s", t.at, topic, setting, value)
}

func (t tools) setForAll(setting, value string) string {
	return fmt.Sprintf("kafka-configs.sh %s --alter --entity-type brokers --entity-default --add-config %s=%s", t.at, setting, value)
}

func (t tools) inFile(setting, value string) string {
	return fmt.Sprintf("%s=%s in server.properties of every node, controllers too, and restart them one by one", setting, value)
}

func (t tools) create(topic string) string {
	return fmt.Sprintf("kafka-topics.sh %s --create --topic %s --partitions 12 --replication-factor %d --config min.insync.replicas=%d", t.at, topic, wantedCopies, wantedCopies-1)
}

func (t tools) grant(operations []string, on string) string {
	return fmt.Sprintf("kafka-acls.sh %s --add --allow-principal '%s' --operation %s %s", t.at, t.principal, strings.Join(operations, " --operation "), on)
}

// toSee is what lets the account look at what it was refused.
func (t tools) toSee(err error) string {
	look := []string{"Describe", "DescribeConfigs"}
	switch {
	case errors.Is(err, kerr.ClusterAuthorizationFailed):
		return t.grant(look, "--cluster")
	case errors.Is(err, kerr.TopicAuthorizationFailed):
		return t.grant(look, "--topic '*'")
	case errors.Is(err, kerr.GroupAuthorizationFailed):
		return t.grant(look[:1], "--group '*'")
	}
	return "look again; if it stays, the cluster does not tell this, and its operators know"
}

// copies is the command that gives partitions more copies, on nodes that have
// none; those that are there stay, and the leaders with them.
func (t tools) copies(want int, nodes []int32, of ...kadm.PartitionDetail) string {
	type assigned struct {
		Topic     string  `json:"topic"`
		Partition int32   `json:"partition"`
		Replicas  []int32 `json:"replicas"`
	}
	plan := struct {
		Version    int        `json:"version"`
		Partitions []assigned `json:"partitions"`
	}{Version: 1}
	for _, p := range of {
		replicas := slices.Clone(p.Replicas)
		for i := range nodes {
			// Each partition begins at another node, so that copies are spread.
			node := nodes[(i+int(p.Partition))%len(nodes)]
			if len(replicas) < want && !slices.Contains(replicas, node) {
				replicas = append(replicas, node)
			}
		}
		plan.Partitions = append(plan.Partitions, assigned{p.Topic, p.Partition, replicas})
	}
	// Names of topics and numbers can always be written.
	text, _ := json.Marshal(plan)
	return fmt.Sprintf("echo '%s' > copies.json && kafka-reassign-partitions.sh %s --reassignment-json-file copies.json --execute", text, t.at)
}
