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

	"github.com/settlemq/settle/examples/shop/lifecycle"
)

// orderHandler is the order service's HTTP entry.
type orderHandler struct {
	orders    *orderService
	committer *committer
	view      *view
	timeouts  entryTimeouts
	log       *slog.Logger
}

func newOrderHandler(v *view, c *committer, t entryTimeouts, log *slog.Logger) *orderHandler {
	return &orderHandler{orders: v.orders, committer: c, view: v, timeouts: t.withDefaults(), log: log}
}

// orderAnswer is the body of a success that changed an order, or found it
// changed already.
type orderAnswer struct {
	OrderID string `json:"orderId"`
	Status  string `json:"status"`
	Reason  string `json:"reason,omitempty"`
}

// place answers 201 for a new order, 200 for a repeat, and a Problem otherwise.
// After a 503 or no answer the client asks again with the same key.
func (h *orderHandler) place(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), h.timeouts.Answer)
	defer cancel()
	p, problem := h.read(w, r)
	if problem != nil {
		problem.write(w)
		return
	}
	refusal, err := h.refusal(ctx, p)
	if err == nil && refusal != "" {
		Problem{Status: http.StatusUnprocessableEntity, Detail: "the order is refused: " + refusal}.write(w)
		return
	}
	if err == nil {
		err = h.committer.submit(ctx, p)
	}
	if err != nil {
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
		writeJSON(w, http.StatusCreated, orderAnswer{OrderID: id, Status: lifecycle.Created})
		return
	}
	o, err := h.orders.status(ctx, id)
	if err != nil {
		h.unavailable(w, err)
		return
	}
	writeJSON(w, http.StatusOK, orderAnswer{OrderID: id, Status: o.Status, Reason: o.Reason})
}

// read checks everything about a request that can be told without the
// database, so that no transaction is begun for one that can't succeed.
func (h *orderHandler) read(w http.ResponseWriter, r *http.Request) (*placement, *Problem) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return nil, &Problem{Status: http.StatusUnsupportedMediaType, Detail: "the content type must be application/json"}
	}
	if len(r.Header.Values("Idempotency-Key")) > 1 {
		return nil, &Problem{Status: http.StatusBadRequest, Detail: "the header Idempotency-Key is there more than once"}
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

// refusal is risk's say before anything is stored, or "". A repeat of an order
// that was taken under other rules is let through: its answer stands.
func (h *orderHandler) refusal(ctx context.Context, p *placement) (string, error) {
	refusal := h.orders.rules.refusal(p.request)
	if refusal == "" {
		return "", nil
	}
	_, err := h.orders.status(ctx, OrderID(p.key))
	switch {
	case errors.Is(err, ErrNoOrder):
		return refusal, nil
	case err != nil:
		return "", err
	}
	return "", nil
}

// cancel answers 200 for an order that is cancelled now, or was.
func (h *orderHandler) cancel(w http.ResponseWriter, r *http.Request) {
	h.fulfil(w, r, lifecycle.CustomerCancels)
}

// pay answers 200 for an order whose customer has asked to pay, or that is
// paid.
func (h *orderHandler) pay(w http.ResponseWriter, r *http.Request) {
	h.fulfil(w, r, lifecycle.CustomerPays)
}

// fulfil waits in the same queue as new orders: who sheds those sheds these.
func (h *orderHandler) fulfil(w http.ResponseWriter, r *http.Request, input string) {
	ctx, cancel := context.WithTimeout(r.Context(), h.timeouts.Answer)
	defer cancel()
	wanted := &wish{orderID: r.PathValue("id"), input: input}
	if err := h.committer.submit(ctx, wanted); err != nil {
		h.unavailable(w, err)
		return
	}
	if wanted.unknown {
		noOrder(wanted.orderID).write(w)
		return
	}
	if why := wanted.refused(); why != "" {
		Problem{Status: http.StatusConflict, Detail: why}.write(w)
		return
	}
	writeJSON(w, http.StatusOK, orderAnswer{OrderID: wanted.orderID, Status: wanted.order.status, Reason: wanted.order.facts.Reason})
}

// unavailable answers 503: nothing is known to be stored, asking again is safe.
func (h *orderHandler) unavailable(w http.ResponseWriter, err error) {
	p := Problem{Status: http.StatusServiceUnavailable, Detail: "the request may or may not be stored; ask again, with the same Idempotency-Key"}
	switch {
	case errors.Is(err, errBusy), errors.Is(err, errStopping):
		p.Detail = err.Error() + "; ask again, with the same Idempotency-Key"
	case !errors.Is(err, context.Canceled):
		h.log.Error("order entry", "error", err)
	}
	w.Header().Set("Retry-After", "1")
	p.write(w)
}

// noOrder repeats an id only if it could be one.
func noOrder(id string) Problem {
	if badName(id) != "" {
		return Problem{Status: http.StatusNotFound, Detail: "there is no order of this id"}
	}
	return Problem{Status: http.StatusNotFound, Detail: "there is no order " + id}
}

func (h *orderHandler) show(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), h.timeouts.Answer)
	defer cancel()
	id := r.PathValue("id")
	o, err := h.view.status(ctx, id)
	switch {
	case errors.Is(err, ErrNoOrder):
		noOrder(id).write(w)
	case err != nil:
		h.log.Error("show order", "order_id", id, "error", err)
		w.Header().Set("Retry-After", "1")
		Problem{Status: http.StatusServiceUnavailable, Detail: "the order can't be read now"}.write(w)
	default:
		writeJSON(w, http.StatusOK, o)
	}
}

const readNothing = `SELECT 1`

// health answers 503 while the database can't be read, or what came last could
// not be written to it. It writes nothing itself: a full disk shows with the
// first order that it refuses.
func (h *orderHandler) health(w http.ResponseWriter, r *http.Request) {
	if _, err := h.orders.db.Reader.ExecContext(r.Context(), readNothing); err != nil {
		Problem{Status: http.StatusServiceUnavailable, Detail: "the database does not answer"}.write(w)
		return
	}
	if h.committer.failing() {
		Problem{Status: http.StatusServiceUnavailable, Detail: "the database could not be written a moment ago"}.write(w)
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
