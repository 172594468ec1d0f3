package rocketmq_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"testing"
)

// fake is a name server and a broker in one, which answers as a test says. It keeps
// one topic of one queue.
type fake struct {
	addr string
	// asked takes each request but those for routes; what it does not answer gets no
	// answer at all.
	asked func(code int, fields map[string]string) (answer, bool)

	mu    sync.Mutex
	conns []net.Conn
	group sync.WaitGroup
}

// answer is that of a server.
type answer struct {
	code   int
	fields map[string]string
	body   []byte
}

const (
	askPull      = 11
	askHeartbeat = 34
	askOrder     = 101
	askRoute     = 105
	askCluster   = 106
	askSend      = 310
)

func newFake(t *testing.T, asked func(code int, fields map[string]string) (answer, bool)) *fake {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &fake{addr: l.Addr().String(), asked: asked}
	f.group.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			f.mu.Lock()
			f.conns = append(f.conns, conn)
			f.mu.Unlock()
			f.group.Go(func() { f.serve(conn) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		f.mu.Lock()
		for _, conn := range f.conns {
			_ = conn.Close()
		}
		f.mu.Unlock()
		f.group.Wait()
	})
	return f
}

func (f *fake) url() string { return "rocketmq://" + f.addr }

func (f *fake) serve(conn net.Conn) {
	var writing sync.Mutex
	for {
		var length [4]byte
		if _, err := io.ReadFull(conn, length[:]); err != nil {
			return
		}
		frame := make([]byte, binary.BigEndian.Uint32(length[:]))
		if _, err := io.ReadFull(conn, frame); err != nil {
			return
		}
		var h struct {
			Code   int               `json:"code"`
			Opaque int               `json:"opaque"`
			Fields map[string]string `json:"extFields"`
		}
		if json.Unmarshal(frame[4:4+binary.BigEndian.Uint32(frame)&0xffffff], &h) != nil {
			return
		}
		f.group.Go(func() {
			a, is := f.route(h.Code)
			if !is {
				a, is = f.asked(h.Code, h.Fields)
			}
			if !is {
				return
			}
			text, _ := json.Marshal(map[string]any{"code": a.code, "opaque": h.Opaque, "flag": 1, "language": "JAVA", "extFields": a.fields, "serializeTypeCurrentRPC": "JSON"})
			out := binary.BigEndian.AppendUint32(nil, uint32(4+len(text)+len(a.body)))
			out = append(append(binary.BigEndian.AppendUint32(out, uint32(len(text))), text...), a.body...)
			writing.Lock()
			defer writing.Unlock()
			_, _ = conn.Write(out)
		})
	}
}

// route answers as the name server of one broker.
func (f *fake) route(code int) (answer, bool) {
	nodes := fmt.Sprintf(`{"brokerAddrs":{0:%q},"brokerName":"fake","cluster":"c"}`, f.addr)
	switch code {
	case askRoute:
		return answer{body: []byte(`{"brokerDatas":[` + nodes + `],"queueDatas":[{"brokerName":"fake","perm":6,"readQueueNums":1,"writeQueueNums":1}]}`)}, true
	case askCluster:
		return answer{body: []byte(`{"brokerAddrTable":{"fake":` + nodes + `}}`)}, true
	case askOrder:
		return answer{fields: map[string]string{"value": "fake:1"}}, true
	}
	return answer{}, false
}

// pulled is an answer to a pull.
func pulled(code int, first, end, next int64, messages ...[]byte) answer {
	n := func(i int64) string { return strconv.FormatInt(i, 10) }
	a := answer{code: code, fields: map[string]string{"minOffset": n(first), "maxOffset": n(end), "nextBeginOffset": n(next)}}
	for _, m := range messages {
		a.body = append(a.body, m...)
	}
	return a
}

// kept is a message as brokers keep it.
func kept(offset int64, body string) []byte {
	b := make([]byte, 88, 128)
	binary.BigEndian.PutUint64(b[20:], uint64(offset))
	binary.BigEndian.PutUint32(b[84:], uint32(len(body)))
	b = append(append(b, body...), 1, 't', 0, 0)
	binary.BigEndian.PutUint32(b, uint32(len(b)))
	return b
}
