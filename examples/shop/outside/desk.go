package outside

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"mime"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Bounds of a server.
const (
	maxInHand   = 256              // requests
	maxHang     = time.Minute      // then the connection is closed
	workTimeout = 10 * time.Second // for what a ledger needs
)

// desk takes the requests of one system.
type desk struct {
	system     string
	operations []operation
	ledger     *ledger
	log        *slog.Logger
	closing    <-chan struct{}
	slots      chan struct{}
	asked      atomic.Int64
	garbled    atomic.Int64

	mu      sync.Mutex
	conduct conduct
	changed chan struct{} // closed when conduct changes, then another
}

func newDesk(ctx context.Context, cfg Config, l *ledger) *desk {
	return &desk{
		system: cfg.System, operations: operations(cfg.System, cfg.DeclinePercent), ledger: l,
		log: cfg.Logger.With("system", cfg.System), closing: ctx.Done(),
		slots: make(chan struct{}, maxInHand), changed: make(chan struct{}),
	}
}

func (d *desk) server(ctx context.Context) *http.Server {
	mux := http.NewServeMux()
	for _, op := range d.operations {
		mux.HandleFunc("POST "+op.path, func(w http.ResponseWriter, r *http.Request) { d.take(w, r, op) })
	}
	mux.HandleFunc("GET /misbehave", d.showConduct)
	mux.HandleFunc("POST /misbehave", d.setConduct)
	return &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      maxHang + maxDelay + workTimeout,
		IdleTimeout:       2 * time.Minute, // longer than a client's: it closes first
		MaxHeaderBytes:    16 << 10,
		BaseContext:       func(net.Listener) context.Context { return context.WithoutCancel(ctx) },
		ErrorLog:          slog.NewLogLogger(d.log.Handler(), slog.LevelDebug),
	}
}

// take answers a request for an effect, or misbehaves.
func (d *desk) take(w http.ResponseWriter, r *http.Request, op operation) {
	select {
	case d.slots <- struct{}{}:
		defer func() { <-d.slots }()
	default:
		busy(w, "too many requests are in hand")
		return
	}
	p, wrong := readPosting(w, r, op)
	if wrong != nil {
		wrong.write(w)
		return
	}
	d.asked.Add(1)
	how, err := d.meet(r.Context(), &p)
	if err != nil {
		d.failed(w, err)
		return
	}
	d.respond(w, r, p, how)
}

// respond does what is asked for in the way of a rule; one without a mode is
// good behaviour.
func (d *desk) respond(w http.ResponseWriter, r *http.Request, p posting, how rule) {
	switch how.Mode {
	case ModeAway:
		busy(w, "the "+d.system+" is away")
		return
	case ModeFail:
		refuse(http.StatusInternalServerError, "the "+d.system+" has failed").write(w)
		return
	case ModeHang:
		d.hang(r.Context(), how, p)
		busy(w, "the "+d.system+" hung")
		return
	}
	// A client that leaves does not stop the work.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), workTimeout)
	defer cancel()
	a, err := d.ledger.post(ctx, p)
	if err != nil {
		d.failed(w, err)
		return
	}
	switch how.Mode {
	case ModeLost:
		panic(http.ErrAbortHandler) // net/http closes the connection
	case ModeGarbage:
		writeAnswer(w, d.garbage(a, p.orderID))
		return
	case ModeSlow:
		d.pause(r.Context(), how.Delay)
	}
	writeAnswer(w, a)
}

// garbage is an answer that no client can make sense of: in turn no JSON, half
// of it, another shape, and too little.
func (d *desk) garbage(a answer, orderID string) answer {
	bodies := []string{"<html>It works!</html>", string(a.body[:len(a.body)/2]), `{"order_id": 17, "result": []}`, fmt.Sprintf(`{"order_id": %q}`, orderID)}
	return answer{status: http.StatusOK, body: []byte(bodies[int(d.garbled.Add(1))%len(bodies)])}
}

func (d *desk) failed(w http.ResponseWriter, err error) {
	d.log.Error("ledger", "error", err)
	refuse(http.StatusInternalServerError, "the ledger does not answer; ask again with the same Idempotency-Key").write(w)
}

// busy answers that nothing was done, and nothing could be.
func busy(w http.ResponseWriter, why string) {
	w.Header().Set("Retry-After", "1")
	refuse(http.StatusServiceUnavailable, why).write(w)
}

// readPosting reads a request whole; it answers nothing itself.
func readPosting(w http.ResponseWriter, r *http.Request, op operation) (posting, *problem) {
	wrong := func(status int, detail string) (posting, *problem) {
		p := refuse(status, detail)
		return posting{}, &p
	}
	key := r.Header.Get("Idempotency-Key")
	if why := badName("the header Idempotency-Key", key); why != "" {
		return wrong(http.StatusBadRequest, why)
	}
	body, problem := readBody(w, r)
	if problem != nil {
		return posting{}, problem
	}
	request := op.body()
	if err := decodeStrict(body, request); err != nil {
		return wrong(http.StatusBadRequest, "the body can't be read: "+err.Error())
	}
	asked, why := request.ask()
	if why != "" {
		return wrong(http.StatusUnprocessableEntity, why)
	}
	// Encoded again: blanks and the order of fields make no other request.
	same, err := json.Marshal(request)
	if err != nil {
		return wrong(http.StatusBadRequest, "the body can't be read: "+err.Error())
	}
	hash := sha256.Sum256(append([]byte(op.path+"\n"), same...))
	return posting{ask: asked, key: key, hash: hash[:], decide: op.decide}, nil
}

func readBody(w http.ResponseWriter, r *http.Request) ([]byte, *problem) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		p := refuse(http.StatusUnsupportedMediaType, "the content type must be application/json")
		return nil, &p
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		p := refuse(http.StatusRequestEntityTooLarge, "the body is larger than 256 KiB")
		return nil, &p
	case err != nil:
		p := refuse(http.StatusRequestTimeout, "the body did not arrive")
		return nil, &p
	}
	return body, nil
}

// decodeStrict reads one JSON value and nothing else.
func decodeStrict(b []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), "json: "))
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something stands behind its end")
	}
	return nil
}

// meet finds the rule that meets a request and counts that it did. Where it
// matters whose request it is, p gets its customer.
func (d *desk) meet(ctx context.Context, p *posting) (rule, error) {
	d.mu.Lock()
	personal := d.conduct.personal()
	d.mu.Unlock()
	if p.customerID == "" && personal {
		var err error
		if p.customerID, err = d.ledger.customerOf(ctx, p.orderID); err != nil {
			return rule{}, err
		}
	}
	d.mu.Lock()
	r, met := d.conduct.meet(time.Now(), p.customerID, rand.Float64)
	d.mu.Unlock()
	if !met {
		return rule{}, nil
	}
	return r, d.ledger.count(context.WithoutCancel(ctx), r.Mode)
}
