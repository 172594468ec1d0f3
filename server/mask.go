package server

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// hidden stands where a secret was.
const hidden = "***"

// mask replaces the secrets of a config in texts that people see.
type mask struct{ *strings.Replacer }

func newMask(c Config) mask {
	secrets := []string{c.Embedded.Token}
	for _, s := range c.Sources {
		secrets = append(secrets, urlSecrets(s.DB, false)...)
		for _, b := range s.Bridges {
			secrets = append(secrets, urlSecrets(b.Broker, true)...)
		}
		for _, broker := range s.brokers() {
			secrets = append(secrets, urlSecrets(broker, true)...)
		}
	}
	var forms []string
	for _, secret := range secrets {
		if secret != "" {
			quoted := strconv.Quote(secret)
			forms = append(forms, secret, escape(secret), url.QueryEscape(secret), url.PathEscape(secret), url.UserPassword("", secret).String()[1:], quoted[1:len(quoted)-1])
		}
	}
	// The longer first: one secret may begin with another.
	slices.SortFunc(forms, func(a, b string) int { return len(b) - len(a) })
	var pairs []string
	for _, form := range forms {
		pairs = append(pairs, form, hidden)
	}
	return mask{strings.NewReplacer(pairs...)}
}

// urlSecrets returns a URL's password and those among its options. A user
// without a password is a broker's token.
func urlSecrets(raw string, token bool) []string {
	u, err := url.Parse(oneHost(raw))
	if err != nil {
		return nil // refused by Check, which shows nothing of it
	}
	var secrets []string
	if u.User != nil {
		password, has := u.User.Password()
		secrets = append(secrets, password)
		if token && !has {
			secrets = append(secrets, u.User.Username())
		}
	}
	for option, values := range u.Query() {
		if strings.Contains(strings.ToLower(option), "password") {
			secrets = append(secrets, values...)
		}
	}
	return secrets
}

// oneHost leaves the first of several hosts, which not every reader of URLs
// takes. A password has no comma, at sign or slash that is not escaped.
func oneHost(raw string) string {
	scheme, rest, found := strings.Cut(raw, "://")
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	hosts := strings.LastIndex(rest[:end], "@") + 1
	comma := strings.Index(rest[hosts:end], ",")
	if !found || comma < 0 {
		return raw
	}
	return scheme + "://" + rest[:hosts+comma] + rest[end:]
}

// Hide returns text without the passwords and tokens of the config.
func (c Config) Hide(text string) string { return newMask(c).Replace(text) }

// HideError returns err with a text that Hide has seen; nil stays nil.
func (c Config) HideError(err error) error { return newMask(c).error(err) }

func (m mask) error(err error) error {
	if err == nil {
		return nil
	}
	return &maskedError{text: m.Replace(err.Error()), err: err}
}

type maskedError struct {
	text string
	err  error
}

func (e *maskedError) Error() string { return e.text }
func (e *maskedError) Unwrap() error { return e.err }
