package server

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/settlemq/settle/dial"
	"github.com/settlemq/settle/internal/configfile"
)

// ReadConfig reads a file strictly: an unknown key is an error that names the
// line, the wrong word and the right ones. Placeholders are replaced and every
// value is checked. No error shows a secret.
func ReadConfig(path string) (Config, error) {
	var c Config
	if err := configfile.Read(path, &c); err != nil {
		return Config{}, err
	}
	err := c.expand()
	if err == nil {
		err = c.Check()
	}
	if err != nil {
		return Config{}, fmt.Errorf("config %s: %w", path, err)
	}
	return c, nil
}

// names returns the sources' names in order.
func (c Config) names() []string {
	names := make([]string, 0, len(c.Sources))
	for name := range c.Sources {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (c *Config) expand() error {
	var err error
	if c.Embedded.Dir, err = expand(c.Embedded.Dir, false); err != nil {
		return fmt.Errorf("embedded.dir: %w", err)
	}
	if c.Embedded.Token, err = expand(c.Embedded.Token, false); err != nil {
		return fmt.Errorf("embedded.token: %w", err)
	}
	for _, name := range c.names() {
		s := c.Sources[name]
		if s.DB, err = expand(s.DB, true); err != nil {
			return fmt.Errorf("sources.%s.db: %w", name, err)
		}
		if s.Broker, err = expand(s.Broker, true); err != nil {
			return fmt.Errorf("sources.%s.broker: %w", name, err)
		}
		s.Brokers = maps.Clone(s.Brokers)
		for broker := range s.Brokers {
			if s.Brokers[broker], err = expand(s.Brokers[broker], true); err != nil {
				return fmt.Errorf("sources.%s.brokers.%s: %w", name, broker, err)
			}
		}
		if err := s.expandBridges(); err != nil {
			return fmt.Errorf("sources.%s.%w", name, err)
		}
		c.Sources[name] = s
	}
	return nil
}

var sourceName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// Check returns an error that names the first key whose value can't be, and
// what it must be. It does no I/O.
func (c Config) Check() error {
	if w := c.wrong(); w != nil {
		return w
	}
	return nil
}

func (c Config) wrong() *configfile.Wrong {
	if len(c.Sources) == 0 {
		return &configfile.Wrong{Key: "sources", Want: "given: at least one name with its db"}
	}
	if c.Listen != "" {
		_, port, err := net.SplitHostPort(c.Listen)
		if err == nil {
			_, err = net.LookupPort("tcp", port)
		}
		if err != nil {
			return &configfile.Wrong{Key: "listen", Got: c.Listen, Want: "HOST:PORT, for instance 127.0.0.1:8081"}
		}
	}
	at := map[string]string{} // which source has a database
	for _, name := range c.names() {
		if !sourceName.MatchString(name) {
			return &configfile.Wrong{Key: "sources", Got: fmt.Sprintf("naming %q", name), Want: "names of letters, digits, dots, hyphens and underlines, at most 64"}
		}
		if w := c.Sources[name].wrong(); w != nil {
			return w.Under("sources." + name)
		}
		if other := at[c.Sources[name].DB]; other != "" {
			return &configfile.Wrong{Key: "sources." + name + ".db", Want: "another one than that of sources." + other + ": one source relays a database"}
		}
		at[c.Sources[name].DB] = name
	}
	return c.Embedded.wrong(c.embeds()).Under("embedded")
}

// embeds reports whether any source's broker is the embedded one.
func (c Config) embeds() bool {
	for _, s := range c.Sources {
		if s.embeds() {
			return true
		}
	}
	return false
}

func (c SourceConfig) embeds() bool {
	return slices.ContainsFunc(slices.Collect(maps.Values(c.brokers())), isEmbedded)
}

func (c SourceConfig) wrong() *configfile.Wrong {
	if c.DB == "" {
		return &configfile.Wrong{Key: "db", Want: "given: the URL of the database"}
	}
	if err := dial.CheckStore(c.DB); err != nil {
		return &configfile.Wrong{Key: "db", Want: "a database's URL: " + withoutText(err, c.DB)}
	}
	if w := c.wrongBrokers(); w != nil {
		return w
	}
	if slices.Contains(c.Topics, "") {
		return &configfile.Wrong{Key: "topics", Got: fmt.Sprintf("%q", c.Topics), Want: "names"}
	}
	if slices.Contains(c.Groups, "") {
		return &configfile.Wrong{Key: "groups", Got: fmt.Sprintf("%q", c.Groups), Want: "names"}
	}
	if !slices.Contains([]string{"", DurabilityStrict, DurabilityLax}, c.Durability) {
		return &configfile.Wrong{Key: "durability", Got: c.Durability, Want: DurabilityStrict + " or " + DurabilityLax}
	}
	if !slices.Contains([]string{"", DurabilityStrict, DurabilityLax}, c.BrokerDurability) {
		return &configfile.Wrong{Key: "broker_durability", Got: c.BrokerDurability, Want: DurabilityStrict + " or " + DurabilityLax}
	}
	if !slices.Contains([]string{"", OtherRelayWarn, OtherRelayUnready}, c.OtherRelay) {
		return &configfile.Wrong{Key: "other_relay", Got: c.OtherRelay, Want: OtherRelayWarn + " or " + OtherRelayUnready}
	}
	if w := c.wrongBridges(); w != nil {
		return w
	}
	return c.Relay.Wrong().Under("relay")
}

// withoutText is the text of err, unless that shows the whole of what was given:
// a password may stand where a URL should.
func withoutText(err error, whole string) string {
	var u *dial.URLError
	if errors.As(err, &u) && u.Wrong == whole {
		return u.Reason + " it; it can be " + strings.Join(u.Right, " or ")
	}
	return err.Error()
}

func (c EmbeddedConfig) wrong(used bool) *configfile.Wrong {
	switch {
	case used && c.Dir == "":
		return &configfile.Wrong{Key: "dir", Want: "given, because the broker of a source is embedded"}
	case c.Dir != "" && !filepath.IsAbs(c.Dir):
		return &configfile.Wrong{Key: "dir", Got: c.Dir, Want: "an absolute path"}
	case c.Port < 0 || c.Port > 65535:
		return &configfile.Wrong{Key: "port", Got: c.Port, Want: "1 to 65535"}
	case strings.ContainsAny(c.Token, " \t\n/@:?#%"):
		return &configfile.Wrong{Key: "token", Want: "without spaces and the characters / @ : ? # %"}
	}
	return nil
}

var placeholder = regexp.MustCompile(`\$\{([^}]*)\}`)

// Expand replaces ${NAME} and ${file:/path} in a URL, and a whole file:/path, as
// in a config file. No error shows a secret.
func Expand(text string) (string, error) { return expand(text, true) }

// expand replaces ${NAME} by an environment variable and ${file:/path} by what
// a file says, without the line's end. What is a part of a URL is escaped as its
// place needs, so that any password will do; what stands for the whole of it is
// taken as it is.
func expand(text string, isURL bool) (string, error) {
	if path, ok := strings.CutPrefix(text, "file:"); ok {
		return readSecret(path)
	}
	var out strings.Builder
	end := 0
	for _, at := range placeholder.FindAllStringSubmatchIndex(text, -1) {
		value, err := lookUp(text[at[2]:at[3]])
		if err != nil {
			return "", err
		}
		if isURL && at[1]-at[0] < len(text) {
			value = escapeAt(text[:at[0]], text[at[1]:], value)
		}
		out.WriteString(text[end:at[0]] + value)
		end = at[1]
	}
	return out.String() + text[end:], nil
}

// escapeAt makes a value a part of a URL between before and behind: of the user
// and password or of the options, where every special character is escaped, or
// of host and path, where slashes and colons are meant.
func escapeAt(before, behind, value string) string {
	behind = placeholder.ReplaceAllString(behind, "")
	if i := strings.IndexAny(behind, "@/?#"); strings.Contains(before, "?") || i >= 0 && behind[i] == '@' {
		return escape(value)
	}
	return (&url.URL{Path: value}).EscapedPath()
}

func lookUp(name string) (string, error) {
	if path, ok := strings.CutPrefix(name, "file:"); ok {
		return readSecret(path)
	}
	value, ok := os.LookupEnv(name)
	if !ok || value == "" {
		return "", fmt.Errorf("the environment variable %q is not set", name)
	}
	return value, nil
}

func readSecret(path string) (string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read secret: %w", err)
	}
	value := strings.TrimRight(string(b), "\r\n")
	if value == "" {
		return "", fmt.Errorf("the file %s is empty", path)
	}
	return value, nil
}

// escape makes a text one part of a URL, wherever it stands.
func escape(text string) string { return strings.ReplaceAll(url.QueryEscape(text), "+", "%20") }
