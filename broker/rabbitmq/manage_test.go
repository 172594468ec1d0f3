package rabbitmq_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"testing"
	"time"

	"github.com/settlemq/settle"
)

// management is the server's HTTP interface, one port above its own.
type management struct {
	t    testing.TB
	base string
	user *url.Userinfo
}

func manage(t testing.TB, at string) *management {
	t.Helper()
	u := parse(t, at)
	return &management{t: t, base: "http://" + above(t, u, 1), user: u.User}
}

func parse(t testing.TB, at string) *url.URL {
	t.Helper()
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal("the URL of the server can't be read")
	}
	return u
}

// above is the host with a port that is so much higher.
func above(t testing.TB, u *url.URL, by int) string {
	t.Helper()
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		t.Fatal(err)
	}
	return net.JoinHostPort(u.Hostname(), strconv.Itoa(port+by))
}

// ask sends what is not nil as JSON, and returns the answer.
func (m *management) ask(method, path string, send any) []byte {
	m.t.Helper()
	body := []byte(nil)
	if send != nil {
		var err error
		if body, err = json.Marshal(send); err != nil {
			m.t.Fatal(err)
		}
	}
	req, err := http.NewRequest(method, m.base+path, bytes.NewReader(body))
	if err != nil {
		m.t.Fatal(err)
	}
	password, _ := m.user.Password()
	req.SetBasicAuth(m.user.Username(), password)
	req.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		m.t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	said, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode >= 300 && answer.StatusCode != http.StatusNotFound {
		m.t.Fatalf("%s %s: %s %v: %s", method, path, answer.Status, err, said)
	}
	return said
}

// user makes a user who may do what three patterns allow, in the default
// virtual host, and returns the URL with which he comes.
func (m *management) newUser(at, configure, write, read string) string {
	m.t.Helper()
	name := "test-" + settle.NewID()
	m.ask(http.MethodPut, "/api/users/"+name, map[string]string{"password": "canary", "tags": ""})
	m.t.Cleanup(func() { m.ask(http.MethodDelete, "/api/users/"+name, nil) })
	m.ask(http.MethodPut, "/api/permissions/%2F/"+name, map[string]string{"configure": configure, "write": write, "read": read})
	u := parse(m.t, at)
	u.User, u.RawQuery = url.UserPassword(name, "canary"), ""
	return u.String()
}

// cut ends all connections of a name, once they are known, and returns how
// many there were.
func (m *management) cut(name string, want int) {
	m.t.Helper()
	deadline := time.Now().Add(patience)
	for cut := 0; cut < want; {
		var all []struct {
			Name   string `json:"name"`
			Client struct {
				Name string `json:"connection_name"`
			} `json:"client_properties"`
		}
		if err := json.Unmarshal(m.ask(http.MethodGet, "/api/connections", nil), &all); err != nil {
			m.t.Fatal(err)
		}
		for _, c := range all {
			if c.Client.Name == name+" publishing" || c.Client.Name == name+" consuming" {
				m.ask(http.MethodDelete, "/api/connections/"+url.PathEscape(c.Name), nil)
				cut++
			}
		}
		if time.Now().After(deadline) {
			m.t.Fatalf("%d connections are named %q, want %d", cut, name, want)
		}
		time.Sleep(50 * time.Millisecond) // the server tells of connections late
	}
}

// event returns the n-th event of a key.
func event(topic, key string, n int) settle.Message {
	id := fmt.Sprintf("%s-%d", key, n)
	now := time.Now().UTC().Truncate(time.Second)
	return settle.Message{ID: id, Source: "test", Event: &settle.Event{
		ID: id, Type: "test.happened", AggregateType: "test", AggregateID: key, AggregateSeq: int64(n),
		OccurredAt: now, AppendedAt: now, Version: 1, Topic: topic, Payload: []byte(`{}`),
	}}
}
