package rabbitmq

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// askTimeout is how long a management API may take: one asks all nodes, of which
// one may hang.
const askTimeout = 4 * time.Second

// Leads returns how many of the queues of a topic each node leads that is there,
// by its host and port, and whether every queue has all its copies. AMQP does not
// tell; admins holds, by host and port, the URLs of the nodes' management APIs,
// which know the user of the broker's URL.
func (t *Tap) Leads(ctx context.Context, topic string, admins map[string]string) (leads map[string]int, whole bool, err error) {
	nodes := map[string]string{} // by RabbitMQ's name, host and port
	leads = map[string]int{}
	var queues []queueStanding
	var failed error
	for at, admin := range admins {
		var self struct{ Node string }
		if err := t.ask(ctx, admin+"/api/overview?columns=node", &self); err != nil {
			failed = errors.Join(failed, err)
			continue // it is not there
		}
		nodes[self.Node], leads[at] = at, 0
		if queues != nil {
			continue
		}
		err := t.ask(ctx, admin+"/api/queues/"+url.PathEscape(t.b.at.vhost)+"?columns=name,leader,members,online", &queues)
		failed = errors.Join(failed, err)
	}
	if queues == nil {
		return nil, false, fmt.Errorf("ask RabbitMQ's management API which nodes lead: %w", failed)
	}
	whole = len(leads) == len(admins)
	for _, q := range queues {
		if !strings.HasPrefix(q.Name, topic+".") || strings.HasSuffix(q.Name, ownerName("")) {
			continue
		}
		if at, is := nodes[q.Leader]; is {
			leads[at]++
		}
		whole = whole && len(q.Online) == len(admins) && len(q.Online) == len(q.Members)
	}
	return leads, whole, nil
}

// queueStanding is what the management API tells of a queue.
type queueStanding struct {
	Name            string
	Leader          string
	Members, Online []string
}

// ask reads an answer in JSON.
func (t *Tap) ask(ctx context.Context, at string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return err
	}
	req.SetBasicAuth(t.b.at.user, t.b.at.password)
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(answer.Body, 16<<20))
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", at, answer.Status)
	}
	return json.Unmarshal(body, into)
}
