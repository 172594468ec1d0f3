package mysql

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	driver "github.com/go-sql-driver/mysql"
)

var errURL = errors.New("the URL can't be read; it is mysql://user:password@host:port/name, with ?tls=true or ?tls=true&tls_ca=/path to encrypt")

// parseURL makes the driver's settings of a URL.
func parseURL(raw string) (*driver.Config, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "mysql" && u.Scheme != "mariadb" || u.Hostname() == "" || len(u.Path) < 2 {
		return nil, errURL
	}
	cfg := driver.NewConfig()
	cfg.Net, cfg.Addr, cfg.DBName = "tcp", u.Host, u.Path[1:]
	if u.Port() == "" {
		cfg.Addr += ":3306"
	}
	cfg.User = u.User.Username()
	cfg.Passwd, _ = u.User.Password()
	cfg.ParseTime, cfg.InterpolateParams, cfg.MaxAllowedPacket = true, true, 0
	cfg.Logger = &driver.NopLogger{}
	// A matched row counts, whether or not it had the new value before.
	cfg.ClientFoundRows = true
	// A time that is finer than its column is a text to the server, which looks
	// for none by index.
	if err := cfg.Apply(driver.TimeTruncate(time.Microsecond)); err != nil {
		return nil, err
	}
	for name := range u.Query() {
		if name != "tls" && name != "tls_ca" {
			return nil, fmt.Errorf("the URL's setting %q is not known; there are tls and tls_ca", name)
		}
	}
	return cfg, encrypt(cfg, u)
}

// encrypt reads tls=true, tls=skip-verify, tls=preferred or tls=false.
func encrypt(cfg *driver.Config, u *url.URL) error {
	cfg.TLSConfig = u.Query().Get("tls")
	ca := u.Query().Get("tls_ca")
	if ca == "" {
		return nil
	}
	if cfg.TLSConfig != "true" {
		return errors.New("the URL has tls_ca, which goes with tls=true")
	}
	pem, err := os.ReadFile(ca)
	if err != nil {
		return fmt.Errorf("read tls_ca: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return fmt.Errorf("read tls_ca: %s holds no certificate", ca)
	}
	cfg.TLSConfig, cfg.TLS = "", &tls.Config{RootCAs: pool, ServerName: u.Hostname(), MinVersion: tls.VersionTLS12}
	return nil
}

// server is what is known of the server.
type server struct {
	version string
	mariadb bool
	// exact is the collation that compares byte by byte.
	exact string
	// packet is how many bytes a statement may have.
	packet int
	// idle is after how long without a word the server ends a connection.
	idle time.Duration
}

const whoAreYou = `SELECT VERSION(), @@global.read_only, @@global.max_allowed_packet, @@global.wait_timeout`

// Versions with everything that is used here.
const (
	oldestMySQL   = "8.0.16"
	oldestMariaDB = "10.6.0"
)

// look asks the server what it is.
func look(ctx context.Context, db *sql.DB) (server, error) {
	var s server
	var readOnly bool
	var idle int64
	if err := db.QueryRowContext(ctx, whoAreYou).Scan(&s.version, &readOnly, &s.packet, &idle); err != nil {
		return s, err
	}
	s.idle = time.Duration(idle) * time.Second
	s.mariadb = strings.Contains(s.version, "MariaDB")
	kind, oldest := "MySQL", oldestMySQL
	s.exact = "utf8mb4_0900_bin"
	if s.mariadb {
		kind, oldest, s.exact = "MariaDB", oldestMariaDB, "utf8mb4_nopad_bin"
	}
	switch {
	case older(s.version, oldest):
		return s, fmt.Errorf("the server is %s %s; want %s or newer", kind, s.version, oldest)
	case readOnly:
		return s, errors.New("the server is a read-only replica; give the URL of the primary")
	}
	return s, s.hashes(ctx, db)
}

const hashOfNothing = `SELECT MD5('')`

// hashes refuses a server that can't tell a key's lane. The newest MySQL has
// MD5 in a component, which it begins without.
func (s server) hashes(ctx context.Context, db *sql.DB) error {
	var sum string
	err := db.QueryRowContext(ctx, hashOfNothing).Scan(&sum)
	if hasCode(err, codeNoFunction) {
		return fmt.Errorf("the server, MySQL %s, has no function MD5(), by which a key's lane is found; it comes with: INSTALL COMPONENT 'file://component_classic_hashing'", s.version)
	}
	return err
}

// older compares the numbers that versions begin with.
func older(version, than string) bool {
	is, _, _ := strings.Cut(version, "-")
	have, want := strings.Split(is, "."), strings.Split(than, ".")
	for i := range want {
		if i >= len(have) {
			return true
		}
		h, err := strconv.Atoi(have[i])
		w, wErr := strconv.Atoi(want[i])
		if err != nil || wErr != nil || h != w {
			return err == nil && h < w
		}
	}
	return false
}

// strictly refuses what the server would otherwise cut or make up.
const strictly = "'STRICT_ALL_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION'"

// session are the settings that every connection of a pool begins with. The
// store's own are bounded: one whose process was stopped must not hold a lock
// for longer than a lease.
func (s *Store) session(own, readOnly bool) map[string]string {
	set := map[string]string{"time_zone": "'+00:00'"}
	only := "transaction_read_only"
	if s.server.mariadb {
		only = "tx_read_only"
	}
	if readOnly {
		set[only] = "1"
	}
	if !s.server.mariadb { // counters would be told as they were up to a day ago
		set["information_schema_stats_expiry"] = "0"
	}
	if !own {
		return set
	}
	set[s.server.isolation()] = "'READ-COMMITTED'"
	set["sql_mode"] = strictly
	set["innodb_lock_wait_timeout"] = seconds(s.cfg.LockTimeout)
	// An owner who alters an adopted table makes others wait behind him, and the
	// server would let them wait for a day.
	set["lock_wait_timeout"] = seconds(s.cfg.LockTimeout)
	set["wait_timeout"] = seconds(s.cfg.IdleTimeout)
	set["net_read_timeout"] = seconds(s.cfg.IdleTimeout)
	if s.server.mariadb {
		set["max_statement_time"] = seconds(s.cfg.StatementTimeout)
		set["@settle_run"] = fmt.Sprintf(runOfServer, "@@server_id", "information_schema")
	} else {
		set["max_execution_time"] = strconv.FormatInt(s.cfg.StatementTimeout.Milliseconds(), 10)
		set["@settle_run"] = fmt.Sprintf(runOfServer, "@@server_uuid", "performance_schema")
	}
	return set
}

// isolation is the session's setting of that.
func (s server) isolation() string {
	if s.mariadb {
		return "tx_isolation"
	}
	return "transaction_isolation"
}

// runOfServer names the run of the server that answers, by who it is and when
// it began; see Log.serverRun. Both times are of the same second.
const runOfServer = `(SELECT CONCAT(%s, '@', @@hostname, ':', @@port, ' since ', UNIX_TIMESTAMP() - variable_value) FROM %s.global_status WHERE variable_name = 'Uptime')`

// seconds is how the server counts time: whole ones, at least one.
func seconds(d time.Duration) string {
	return strconv.FormatInt(int64(max(time.Second, d+time.Second-1)/time.Second), 10)
}
