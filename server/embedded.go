package server

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/settlemq/settle/dial"
)

const (
	defaultPort = 4222
	// tokenFile keeps a token that the config does not give.
	tokenFile = "token"
	// takeOverEvery is the pause between two attempts to serve a directory that
	// another process serves.
	takeOverEvery = 200 * time.Millisecond
)

// embedded serves a broker's directory, or stands by for who does.
type embedded struct {
	cfg   EmbeddedConfig
	log   *slog.Logger
	board *board
}

// withToken returns c with everything set. A token that is not given is that
// of the directory, which is made with one if need be.
func (c EmbeddedConfig) withToken() (EmbeddedConfig, error) {
	if c.Port == 0 {
		c.Port = defaultPort
	}
	if c.Token != "" {
		return c, nil
	}
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return c, fmt.Errorf("make the embedded broker's directory: %w", err)
	}
	path := filepath.Join(c.Dir, tokenFile)
	if err := makeToken(path); err != nil {
		return c, fmt.Errorf("make the embedded broker's token: %w", err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return c, fmt.Errorf("read the embedded broker's token: %w", err)
	}
	c.Token = strings.TrimSpace(string(b))
	if w := c.wrong(true); w != nil || c.Token == "" {
		return c, fmt.Errorf("the embedded broker's token in %s is empty or has characters that a URL can't have", path)
	}
	return c, nil
}

// makeToken links a whole file to path, so that of several processes one
// makes it and none reads half of it.
func makeToken(path string) error {
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), tokenFile+"-")
	if err != nil {
		return err
	}
	_, err = f.WriteString(rand.Text() + "\n")
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		if err = os.Link(f.Name(), path); errors.Is(err, fs.ErrExist) {
			err = nil
		}
	}
	return errors.Join(err, os.Remove(f.Name()))
}

// url is where clients find the broker, whoever serves it.
func (c EmbeddedConfig) url() string {
	u := url.URL{Scheme: "nats", User: url.User(c.Token), Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(c.Port))}
	return u.String()
}

// run serves the broker whenever no other process does, until ctx is done.
func (e *embedded) run(ctx context.Context) {
	defer e.board.become(StateEnded, "", nil)
	for wait := retryFirst; ; {
		err := dial.ServeBroker(ctx, dial.ServerConfig{
			Dir: e.cfg.Dir, Port: e.cfg.Port, Token: e.cfg.Token, Logger: e.log,
			Ready: func(string) {
				wait = retryFirst
				e.board.become(StateServing, "", nil)
			},
		})
		pauseFor := takeOverEvery
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, dial.ErrInUse):
			e.board.become(StateStandingBy, "", nil)
		default:
			e.board.become(StateUnreachable, "directory", err)
			pauseFor, wait = wait, min(2*wait, retryMax)
		}
		if !pause(ctx, pauseFor) {
			return
		}
	}
}
