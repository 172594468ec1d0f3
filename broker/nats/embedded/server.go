// Package embedded runs a NATS JetStream server inside the process: file
// storage, every message synced before it is acknowledged, loopback only and
// with a token. It alone links the server.
package embedded

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// Config shapes a Server. Only Dir is required.
type Config struct {
	// Dir keeps the messages. It is made when missing, and used by one server
	// at a time.
	Dir string
	// Port on 127.0.0.1. Defaults to a free one; see URL.
	Port int
	// InProcessOnly opens no port: only InProcess connects. Defaults to false.
	InProcessOnly bool
	// Token is what clients have to show. Defaults to a random one; see URL.
	Token string
	// SyncInterval is how often written data is synced to disk. Defaults to 0:
	// always, before a message is acknowledged. With anything else an
	// acknowledgement proves nothing against a power cut.
	SyncInterval time.Duration
	// MaxStore bounds the sum of what topics may keep, in bytes. Defaults to 1
	// TiB, which leaves the word to the disk and to each topic's own limit.
	MaxStore int64
	// MaxRecord is the largest record with its headers, in bytes. Defaults to
	// 2 MiB, enough for the largest event that an outbox accepts.
	MaxRecord int
	// StartTimeout bounds the recovery of what is in Dir. Defaults to 60 s.
	StartTimeout time.Duration
	// Log takes the server's warnings and errors. Defaults to none.
	Log *slog.Logger
}

// Server is a running server.
type Server struct {
	server *server.Server
	token  string
	lock   *os.File
	once   sync.Once
	err    error
}

// Start recovers what is in cfg.Dir and serves it. It blocks until clients
// can connect. It returns an error when the directory can't be written or is
// used by another process, when the port is taken, or when the server does
// not come up in time.
func Start(cfg Config) (*Server, error) {
	if cfg.Dir == "" {
		return nil, errors.New("start broker: no directory is given")
	}
	if cfg.Token == "" {
		cfg.Token = rand.Text()
	}
	if cfg.StartTimeout <= 0 {
		cfg.StartTimeout = time.Minute
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	lock, err := lockDir(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("start broker: %w", err)
	}
	s := &Server{token: cfg.Token, lock: lock}
	if err := s.start(cfg); err != nil {
		_ = s.Close()
		return nil, fmt.Errorf("start broker in %s: %w", cfg.Dir, err)
	}
	return s, nil
}

func (s *Server) start(cfg Config) error {
	running, err := server.NewServer(options(cfg))
	if err != nil {
		return err
	}
	s.server = running
	fatal := make(chan string, 1)
	running.SetLoggerV2(&logger{log: cfg.Log, fatal: fatal}, false, false, false)
	go running.Start() // returns by itself; Close waits for the shutdown
	deadline := time.Now().Add(cfg.StartTimeout)
	for !running.ReadyForConnections(20 * time.Millisecond) {
		select {
		case why := <-fatal:
			return errors.New(why)
		default:
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("not ready after %s", cfg.StartTimeout)
		}
	}
	if !running.JetStreamEnabled() {
		return errors.New("the server runs without its storage")
	}
	return nil
}

func options(cfg Config) *server.Options {
	o := &server.Options{
		ServerName:             "settle",
		Host:                   "127.0.0.1",
		Port:                   cfg.Port,
		DontListen:             cfg.InProcessOnly,
		Authorization:          cfg.Token,
		JetStream:              true,
		StoreDir:               cfg.Dir,
		JetStreamMaxStore:      cfg.MaxStore,
		SyncAlways:             cfg.SyncInterval <= 0,
		SyncInterval:           cfg.SyncInterval,
		MaxPayload:             int32(cfg.MaxRecord),
		NoSigs:                 true,
		DisableJetStreamBanner: true,
	}
	if o.Port == 0 {
		o.Port = server.RANDOM_PORT
	}
	if o.JetStreamMaxStore <= 0 {
		o.JetStreamMaxStore = 1 << 40
	}
	if o.MaxPayload <= 0 {
		o.MaxPayload = 2 << 20
	}
	return o
}

// URL is where clients connect, token included. It is empty for a server that
// is in-process only.
func (s *Server) URL() string {
	addr, ok := s.server.Addr().(*net.TCPAddr)
	if !ok {
		return ""
	}
	return "nats://" + s.token + "@127.0.0.1:" + strconv.Itoa(addr.Port)
}

// InProcess connects without a port. The token is needed as well; see Token.
func (s *Server) InProcess() nats.InProcessConnProvider { return s.server }

// Token is what clients have to show.
func (s *Server) Token() string { return s.token }

// Run waits until ctx is done and closes the server. It returns an error when
// the server ends by itself.
func (s *Server) Run(ctx context.Context) error {
	down := make(chan struct{})
	go func() {
		defer close(down)
		s.server.WaitForShutdown()
	}()
	select {
	case <-ctx.Done():
		err := s.Close()
		<-down
		return err
	case <-down:
		return errors.Join(errors.New("run broker: the server ended by itself"), s.Close())
	}
}

// Close stops the server and frees its directory. Closing twice is harmless.
func (s *Server) Close() error {
	s.once.Do(func() {
		if s.server != nil {
			s.server.Shutdown()
			s.server.WaitForShutdown()
		}
		s.err = s.lock.Close()
	})
	return s.err
}

// lockDir takes the directory for this process. The lock goes with the
// process, however it ends.
func lockDir(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make directory: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "settle.lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	if err := tryLock(f); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("directory %s is used by another broker process: %w", dir, err)
	}
	return f, nil
}
