package dial

import (
	"fmt"
	"net/url"
	"strings"
)

// URLError says which word of a URL is wrong and what would be right. It never
// holds the URL itself, because that may carry a token. It is wrong usage, not
// a service that does not answer.
type URLError struct {
	// Kind is broker or database.
	Kind string
	// Wrong is the word at fault, Reason what is the matter with it.
	Wrong, Reason string
	// Right shows what could stand there.
	Right []string
}

func (e *URLError) Error() string {
	return fmt.Sprintf("%s URL: %s %q; it can be %s", e.Kind, e.Reason, e.Wrong, strings.Join(e.Right, " or "))
}

func brokerURLs() []string {
	return []string{"nats://TOKEN@host:port,host:port", "kafka://user:password@host:port,host:port", "rabbitmq://user:password@host:port/vhost", "rocketmq://accesskey:secretkey@host:port,host:port", "memory:"}
}

func databaseURLs() []string {
	return []string{"sqlite:///absolute/path.db", "postgres://user:password@host:port/name?search_path=schema", "mysql://user:password@host:port/name"}
}

// parse returns raw's parts and scheme, or an error that shows no secret.
func parse(kind, raw string, right []string) (*url.URL, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme == "" {
		word, _, found := strings.Cut(raw, ":")
		if !found {
			return nil, &URLError{Kind: kind, Wrong: raw, Reason: "there is no scheme in", Right: right}
		}
		return nil, &URLError{Kind: kind, Wrong: word + ":…", Reason: "can't be read:", Right: right}
	}
	return u, nil
}

func unknownScheme(kind string, u *url.URL, right []string) error {
	return &URLError{Kind: kind, Wrong: u.Scheme, Reason: "unknown scheme", Right: right}
}
