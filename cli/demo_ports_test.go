package cli

import (
	"fmt"
	"os"
	"testing"
)

func TestTheDemosPortsAreNotAmongThoseTheSystemHandsOut(t *testing.T) {
	first, last := 32768, 60999
	if b, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range"); err == nil {
		if _, err := fmt.Sscan(string(b), &first, &last); err != nil {
			t.Fatal(err)
		}
	}
	one, two, err := freePorts()
	if err != nil || one == two {
		t.Fatalf("%d, %d, %v", one, two, err)
	}
	for _, p := range []int{one, two} {
		if p >= first && p <= last {
			t.Errorf("another program may be given port %d while ours is down", p)
		}
	}
}
