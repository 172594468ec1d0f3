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

// Server is a running server. Safe for concurrent use.
type Server struct {
	cfg    Config
	lock   *os.File
	broken chan struct{} // holds a token once a write has failed
	once   sync.Once
	err    error

	mu     sync.Mutex
	server *server.Server
	closed bool
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
	s := &Server{cfg: cfg, lock: lock, broken: make(chan struct{}, 1)}
	if err := s.start(); err != nil {
		_ = s.Close()
		return nil, fmt.Errorf("start broker in %s: %w", cfg.Dir, err)
	}
	return s, nil
}

func (s *Server) start() error {
	running, err := server.NewServer(options(s.cfg))
	if err != nil {
		return err
	}
	s.mu.Lock()
	closed := s.closed
	s.server = running
	s.mu.Unlock()
	if closed {
		return errors.New("the server was closed")
	}
	fatal := make(chan string, 1)
	running.SetLoggerV2(&logger{log: s.cfg.Log, fatal: fatal, broken: s.broken}, false, false, false)
	go running.Start() // returns by itself; Close waits for the shutdown
	deadline := time.Now().Add(s.cfg.StartTimeout)
	for !running.ReadyForConnections(20 * time.Millisecond) {
		select {
		case why := <-fatal:
			return errors.New(why)
		default:
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("not ready after %s", s.cfg.StartTimeout)
		}
	}
	if !running.JetStreamEnabled() {
		return errors.New("the server runs without its storage")
	}
	if addr, ok := running.Addr().(*net.TCPAddr); ok {
		s.cfg.Port = addr.Port // clients find it there again after a restart
	}
	return nil
}

func (s *Server) current() *server.Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.server
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
	addr, ok := s.current().Addr().(*net.TCPAddr)
	if !ok {
		return ""
	}
	return "nats://" + s.cfg.Token + "@127.0.0.1:" + strconv.Itoa(addr.Port)
}

// InProcess connects without a port. The token is needed as well; see Token.
func (s *Server) InProcess() nats.InProcessConnProvider { return s }

// InProcessConn connects to the server that runs now.
func (s *Server) InProcessConn() (net.Conn, error) { return s.current().InProcessConn() }

// Token is what clients have to show.
func (s *Server) Token() string { return s.cfg.Token }

// Run waits until ctx is done and closes the server. It returns an error when
// the server ends by itself. While it runs, a server whose disk was full
// becomes able to store again: see heal.
func (s *Server) Run(ctx context.Context) error {
	for {
		running := s.current()
		down := make(chan struct{})
		go func() {
			defer close(down)
			running.WaitForShutdown()
		}()
		select {
		case <-ctx.Done():
			err := s.Close()
			<-down
			return err
		case <-down:
			return errors.Join(errors.New("run broker: the server ended by itself"), s.Close())
		case <-s.broken:
		}
		err := s.heal(ctx)
		<-down
		if err != nil {
			return errors.Join(fmt.Errorf("run broker: %w", err), s.Close())
		}
	}
}

// Close stops the server and frees its directory. Closing twice is harmless.
func (s *Server) Close() error {
	s.once.Do(func() {
		s.mu.Lock()
		s.closed = true
		s.mu.Unlock()
		s.stop()
		s.err = s.lock.Close()
	})
	return s.err
}

func (s *Server) stop() {
	if running := s.current(); running != nil {
		running.Shutdown()
		running.WaitForShutdown()
	}
}

// ErrInUse means that another process serves the directory.
var ErrInUse = errors.New("is used by another broker process")

// lockWait is how long a lock is waited for: a process that was killed is gone
// before the kernel has closed its files.
const lockWait = time.Second

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
	err = tryLock(f)
	for late := time.Now().Add(lockWait); err != nil && time.Now().Before(late); err = tryLock(f) {
		time.Sleep(20 * time.Millisecond)
	}
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("directory %s %w", dir, ErrInUse)
	}
	return f, nil
}
