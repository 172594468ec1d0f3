package nats

import (
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/doctor"
)

const (
	// The first release with atomic batches.
	wantedMajor, wantedMinor = 2, 12
	// largestRecord is what an outbox may hand over, with the headers that are
	// added to it.
	largestRecord = settle.MaxEnvelope + settle.MaxHeaders + 4<<10
)

func (x *examination) serverChecks() []check {
	return []check{
		{"broker_version", "topics are written in atomic batches, which older servers do not know", x.versionKnown},
		{"encryption", "without it passwords and events can be read on their way", x.encrypted},
		{"servers", "an acknowledged event lives as long as one of the disks that it is on", x.enoughServers},
		{"sync_interval", "what a server acknowledges is only in memory until it is synced: a power cut takes it", x.synced},
		{"account_limits", "when the account is full, every topic refuses new events", x.accountHasRoom},
		{"max_payload", "a larger event is refused and becomes a dead letter", x.payloadFits},
	}
}

func (x *examination) versionKnown() doctor.Diagnosis {
	major, rest, _ := strings.Cut(x.version, ".")
	minor, _, _ := strings.Cut(rest, ".")
	a, errMajor := strconv.Atoi(major)
	b, errMinor := strconv.Atoi(minor)
	if errMajor != nil || errMinor != nil || a < wantedMajor || a == wantedMajor && b < wantedMinor {
		return doctor.Diagnose(doctor.Bad, "version "+x.version, fmt.Sprintf("upgrade nats-server to %d.%d or later", wantedMajor, wantedMinor))
	}
	return doctor.Sound("version %s", x.version)
}

func (x *examination) encrypted() doctor.Diagnosis {
	if _, err := x.b.nc.TLSConnectionState(); err == nil {
		return doctor.Sound("TLS")
	}
	for _, at := range x.at.servers {
		host, _, _ := net.SplitHostPort(strings.TrimPrefix(at, "nats://"))
		if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			return doctor.Diagnose(doctor.Warn, host+" is reached without TLS", "give the server a certificate, and add tls=true to the broker's URL, with tls_ca=/path where the authority is your own")
		}
	}
	return doctor.Sound("no TLS, and it does not leave this machine")
}

// size is how many servers the cluster has, as far as can be seen.
func (x *examination) size() int {
	n := len(x.servers)
	for _, m := range x.monitors {
		if m.err == nil && m.Cluster != nil {
			n = max(n, m.Cluster.Size)
		}
	}
	return n
}

func (x *examination) enoughServers() doctor.Diagnosis {
	const three = "run three servers in one cluster, so that topics have three copies"
	for _, m := range x.monitors {
		if m.err != nil {
			return doctor.Diagnose(doctor.Warn, "the monitor at "+m.at+" does not answer", "start that server, or look at its log")
		}
	}
	switch n := x.size(); {
	case x.cluster == "":
		return doctor.Diagnose(doctor.Warn, "one server: what is on its disk is lost with the disk", three)
	case n < 3:
		return doctor.Diagnose(doctor.Warn, fmt.Sprintf("%d servers are seen in cluster %s", n, x.cluster), three)
	default:
		return doctor.Sound("%d servers in cluster %s", n, x.cluster)
	}
}

func (x *examination) synced() doctor.Diagnosis {
	if len(x.monitors) == 0 {
		return doctor.Diagnose(doctor.Warn, "can't be looked at: clients are not told", "set http: \"127.0.0.1:8222\" at the server, and add monitor=http://127.0.0.1:8222 to the broker's URL, once for each server")
	}
	var late, silent []string
	for _, m := range x.monitors {
		switch {
		case m.err != nil:
			silent = append(silent, fmt.Sprintf("%s: %v", m.at, m.err))
		case !m.Config.SyncAlways:
			late = append(late, fmt.Sprintf("%s syncs each %s", m.at, m.Config.SyncInterval))
		}
	}
	switch {
	case len(late) > 0:
		return doctor.Diagnose(doctor.Bad, strings.Join(late, ", "), "set jetstream { sync_interval: always } at each server")
	case len(silent) > 0:
		return doctor.Diagnose(doctor.Warn, "can't be looked at: "+strings.Join(silent, ", "), "look at the server, and at the option monitor of the broker's URL")
	case len(x.monitors) < x.size():
		return doctor.Diagnose(doctor.Warn, fmt.Sprintf("always at %d of %d servers, the others were not asked", len(x.monitors), x.size()), "add monitor=http://host:port to the broker's URL for each server")
	}
	return doctor.Sound("always")
}

func (x *examination) accountHasRoom() doctor.Diagnosis {
	used, limit := int64(x.account.Store), x.account.Limits.MaxStore
	if limit <= 0 {
		return doctor.Sound("%s are used, the account has no limit of its own", size(used))
	}
	if used >= limit/10*8 {
		return doctor.Diagnose(doctor.Warn, fmt.Sprintf("%s of %s are used", size(used), size(limit)), "raise the account's max_file, or keep records for a shorter time")
	}
	return doctor.Sound("%s of %s are used", size(used), size(limit))
}

func (x *examination) payloadFits() doctor.Diagnosis {
	if x.payload < largestRecord {
		return doctor.Diagnose(doctor.Bad, fmt.Sprintf("%s, the largest event takes %s", size(uint64(x.payload)), size(largestRecord)), "set max_payload: 2MB at the server")
	}
	return doctor.Sound("%s", size(uint64(x.payload)))
}

// size writes a number of bytes for people.
func size[N int | int64 | uint64](n N) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%d bytes", n)
}
