package shop

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"log/slog"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/settlemq/settle/examples/shop/lifecycle"
)

// Bounds of one request.
const (
	maxBody        = 64 << 10
	requestTimeout = 15 * time.Second
)

// orderHandler is the order service's HTTP entry.
type orderHandler struct {
	orders    *orderService
	committer *committer
	// waiting says what an order that is not settled waits for.
	waiting func(ctx context.Context, orderID string) (string, error)
	log     *slog.Logger
}

func (h *orderHandler) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /orders", h.place)
	mux.HandleFunc("GET /orders/{id}", h.show)
	mux.HandleFunc("GET /healthz", h.health)
	return mux
}

// server bounds what a client may take of our time and memory.
func (h *orderHandler) server() *http.Server {
	return &http.Server{
		Handler:           h.routes(),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      requestTimeout + 5*time.Second,
		IdleTimeout:       60 * time.Second,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(h.log.Handler(), slog.LevelDebug),
	}
}

// placedAnswer is the body of a successful POST /orders.
type placedAnswer struct {
	OrderID string `json:"orderId"`
	Status  string `json:"status"`
}

// place answers 201 for a new order, 200 for a repeat, and a Problem otherwise.
// After a 503 or no answer the client asks again with the same key.
func (h *orderHandler) place(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
	defer cancel()
	p, problem := h.read(w, r)
	if problem != nil {
		problem.write(w)
		return
	}
	if err := h.committer.submit(ctx, p); err != nil {
		h.unavailable(w, err)
		return
	}
	id := OrderID(p.key)
	if p.outcome == placedConflict {
		Problem{Status: http.StatusConflict, Detail: "this Idempotency-Key belongs to another order"}.write(w)
		return
	}
	w.Header().Set("Location", "/orders/"+id)
	if p.outcome == placedNew {
		writeJSON(w, http.StatusCreated, placedAnswer{OrderID: id, Status: lifecycle.Created})
		return
	}
	o, err := h.orders.status(ctx, id)
	if err != nil {
		h.unavailable(w, err)
		return
	}
	writeJSON(w, http.StatusOK, placedAnswer{OrderID: id, Status: o.Status})
}

// read checks everything about a request that can be told without the
// database, so that no transaction is begun for one that can't succeed.
func (h *orderHandler) read(w http.ResponseWriter, r *http.Request) (*placement, *Problem) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return nil, &Problem{Status: http.StatusUnsupportedMediaType, Detail: "the content type must be application/json"}
	}
	key := r.Header.Get("Idempotency-Key")
	if why := badName(key); why != "" {
		return nil, &Problem{Status: http.StatusBadRequest, Detail: "the header Idempotency-Key " + why}
	}
	request, wrong, err := decodeOrder(http.MaxBytesReader(w, r.Body, maxBody))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, &Problem{Status: http.StatusRequestEntityTooLarge, Detail: "the body is larger than 64 KiB"}
	case errors.Is(err, errMalformed):
		return nil, &Problem{Status: http.StatusBadRequest, Detail: err.Error()}
	case err != nil:
		return nil, &Problem{Status: http.StatusRequestTimeout, Detail: "the body did not arrive"}
	case len(wrong) > 0:
		return nil, &Problem{Status: http.StatusUnprocessableEntity, Detail: "the order can't be taken as it is", Errors: wrong}
	}
	return &placement{key: key, request: request, hash: request.hash(), traceID: traceID(r.Header.Get("Traceparent"))}, nil
}

// unavailable answers 503: nothing is known to be stored, asking again is safe.
func (h *orderHandler) unavailable(w http.ResponseWriter, err error) {
	p := Problem{Status: http.StatusServiceUnavailable, Detail: "the order may or may not be stored; ask again with the same Idempotency-Key"}
	switch {
	case errors.Is(err, errBusy), errors.Is(err, errStopping):
		p.Detail = err.Error() + "; ask again with the same Idempotency-Key"
	case !errors.Is(err, context.Canceled):
		h.log.Error("order entry", "error", err)
	}
	w.Header().Set("Retry-After", "1")
	p.write(w)
}

func (h *orderHandler) show(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
	defer cancel()
	o, err := h.orders.status(ctx, r.PathValue("id"))
	if err == nil && !o.Settled {
		o.Waiting, err = h.waiting(ctx, o.OrderID)
	}
	switch {
	case errors.Is(err, ErrNoOrder):
		Problem{Status: http.StatusNotFound, Detail: "there is no order " + r.PathValue("id")}.write(w)
	case err != nil:
		h.log.Error("show order", "order_id", o.OrderID, "error", err)
		w.Header().Set("Retry-After", "1")
		Problem{Status: http.StatusServiceUnavailable, Detail: "the order can't be read now"}.write(w)
	default:
		writeJSON(w, http.StatusOK, o)
	}
}

const readNothing = `SELECT 1`

func (h *orderHandler) health(w http.ResponseWriter, r *http.Request) {
	if _, err := h.orders.db.Reader.ExecContext(r.Context(), readNothing); err != nil {
		Problem{Status: http.StatusServiceUnavailable, Detail: "the database does not answer"}.write(w)
		return
	}
	writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
}

// traceID takes the trace id of a W3C traceparent, or makes one.
func traceID(traceparent string) string {
	parts := strings.Split(traceparent, "-")
	if len(parts) == 4 && len(parts[1]) == 32 && strings.Trim(parts[1], "0") != "" {
		if _, err := hex.DecodeString(parts[1]); err == nil {
			return strings.ToLower(parts[1])
		}
	}
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails: the program ends first
	return hex.EncodeToString(id[:])
}
