package drill

import (
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"errors"
	"net/url"
	"os"

	"github.com/go-sql-driver/mysql"
)

// openMySQL opens the MySQL or MariaDB database at a URL, as Settle's own are
// read: with ?tls=true and ?tls_ca=/path. It does not wait for the server.
func openMySQL(u *url.URL) (*sql.DB, error) {
	cfg := mysql.NewConfig()
	cfg.Net, cfg.Addr, cfg.DBName = "tcp", u.Host, u.Path[min(1, len(u.Path)):]
	if u.Port() == "" {
		cfg.Addr += ":3306"
	}
	cfg.User = u.User.Username()
	cfg.Passwd, _ = u.User.Password()
	cfg.InterpolateParams, cfg.MaxAllowedPacket = true, 0
	cfg.Logger = &mysql.NopLogger{}
	cfg.TLSConfig = u.Query().Get("tls")
	if ca := u.Query().Get("tls_ca"); ca != "" {
		pem, err := os.ReadFile(ca)
		if err != nil {
			return nil, err
		}
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM(pem) {
			return nil, errors.New("tls_ca holds no certificate")
		}
		cfg.TLSConfig, cfg.TLS = "", &tls.Config{RootCAs: roots, ServerName: u.Hostname(), MinVersion: tls.VersionTLS12}
	}
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(connector), nil
}

// marksOnly reports whether a database takes its parameters as ? alone.
func marksOnly(db *sql.DB) bool {
	_, ok := db.Driver().(*mysql.MySQLDriver)
	return ok
}
