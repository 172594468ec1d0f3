package remoting_test

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/settlemq/settle/broker/rocketmq/remoting"
)

// asked is a request as it came over the wire.
type asked struct {
	Code   int               `json:"code"`
	Opaque int32             `json:"opaque"`
	Flag   int               `json:"flag"`
	Fields map[string]string `json:"extFields"`
	Body   []byte            `json:"-"`
}

// fake answers requests with whatever its test says.
type fake struct {
	addr  string
	conns chan net.Conn
}

// serve starts one. Each request of a connection is handled by answer in turn.
func serve(t *testing.T, answer func(to net.Conn, r asked)) *fake {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &fake{addr: l.Addr().String(), conns: make(chan net.Conn, 16)}
	var owned sync.WaitGroup
	owned.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			f.conns <- conn
			owned.Go(func() {
				defer func() { _ = conn.Close() }()
				from := bufio.NewReader(conn)
				for {
					r, err := readRequest(from)
					if err != nil {
						return
					}
					answer(conn, r)
				}
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		for {
			select {
			case conn := <-f.conns:
				_ = conn.Close()
				continue
			default:
			}
			break
		}
		owned.Wait()
	})
	return f
}

func readRequest(from io.Reader) (r asked, err error) {
	var lengths [8]byte
	if _, err := io.ReadFull(from, lengths[:]); err != nil {
		return r, err
	}
	size, header := binary.BigEndian.Uint32(lengths[:4]), binary.BigEndian.Uint32(lengths[4:])
	rest := make([]byte, size-4)
	if _, err := io.ReadFull(from, rest); err != nil {
		return r, err
	}
	r.Body = rest[header:]
	return r, json.Unmarshal(rest[:header], &r)
}

// frame is what a server sends.
func frame(header string, body []byte) []byte {
	out := binary.BigEndian.AppendUint32(nil, uint32(4+len(header)+len(body)))
	out = binary.BigEndian.AppendUint32(out, uint32(len(header)))
	return append(append(out, header...), body...)
}

// reply is the frame of an answer to r.
func reply(r asked, code int, remark string, fields map[string]string, body []byte) []byte {
	header, err := json.Marshal(map[string]any{"code": code, "flag": 1, "opaque": r.Opaque, "remark": remark, "extFields": fields, "language": "JAVA", "version": 493, "serializeTypeCurrentRPC": "JSON"})
	if err != nil {
		panic(err)
	}
	return frame(string(header), body)
}

func newClient(t *testing.T, cfg remoting.Config) *remoting.Client {
	t.Helper()
	if cfg.Timeout == 0 {
		cfg.Timeout = time.Minute
	}
	c := remoting.New(cfg)
	t.Cleanup(c.Close)
	return c
}
