package cli

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
)

// Ports from which systems do not choose when a program asks for any: what is
// down for a moment finds its own port free when it comes back, whatever other
// programs have opened meanwhile.
const (
	firstPort = 20_000
	lastPort  = 32_000
)

// freePorts returns two ports that nobody listens on just now.
func freePorts() (int, int, error) {
	var found []int
	var last error
	for range 1000 {
		port := firstPort + rand.IntN(lastPort-firstPort)
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			last = err
			continue
		}
		defer func() { _ = l.Close() }()
		if found = append(found, port); len(found) == 2 {
			return found[0], found[1], nil
		}
	}
	return 0, 0, fmt.Errorf("find a free port: %w", errors.Join(errors.New("none from 20000 to 32000"), last))
}
