package dial

import (
	"github.com/settlemq/settle/broker/nats"
)

// Tap reaches the log of the broker at a URL behind the toolkit's back, for
// drills and checks. It does not wait for the broker. A broker without a log
// of its own is a *URLError.
func Tap(rawURL string) (*nats.Tap, error) {
	right := brokerURLs()[:1]
	u, err := parse("broker", rawURL, right)
	if err != nil {
		return nil, err
	}
	if u.Scheme != "nats" {
		return nil, unknownScheme("broker", u, right)
	}
	if err := checkNATS(u); err != nil {
		return nil, err
	}
	return nats.OpenTap(rawURL)
}
