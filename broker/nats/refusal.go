package nats

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/settlemq/settle"
)

// Error codes of the server's answers that say how much is refused.
const (
	codeNoStream        = 10059
	codeRecordTooLarge  = 10054
	codeHeaderTooLarge  = 10097
	codeDuplicatePlaced = 10158 // the id is being stored right now
	codeNotAvailable    = 10008 // the cluster has no leader
	codeNotLeader       = 10009
	codeTooManyRequests = 10167
	codeNoPeers         = 10005 // fewer servers than copies
	codeNotClustered    = 10074 // copies where there is one server
	codeBatchDuplicate  = 10201 // an atomic batch holds an id that is stored already
	codeNoMessage       = 10037 // the stream does not have it
	codeSubjectsTaken   = 10065 // another stream has them
)

// refusal is a definite answer: nothing of what was sent is stored.
type refusal struct {
	Code        int    `json:"err_code"`
	Description string `json:"description"`
}

func (r *refusal) Error() string {
	return fmt.Sprintf("the broker refused it: %s (%d)", r.Description, r.Code)
}

// classify says how much an error of a broker call speaks of.
func classify(err error) *settle.PublishError {
	var known *settle.PublishError
	if errors.As(err, &known) {
		return known
	}
	var answer *refusal
	var api *jetstream.APIError
	switch {
	case errors.As(err, &answer):
		return byCode(answer.Code, err)
	case errors.Is(err, nats.ErrNoResponders):
		return &settle.PublishError{Scope: settle.ScopeTopic, Err: fmt.Errorf("no stream takes its subject: %w", err)}
	case errors.Is(err, nats.ErrMaxPayload), errors.Is(err, nats.ErrInvalidMsg), errors.Is(err, nats.ErrBadHeaderMsg), errors.Is(err, nats.ErrBadSubject):
		return &settle.PublishError{Scope: settle.ScopeRecord, Err: settle.Permanent(err)}
	case errors.As(err, &api):
		return byCode(int(api.ErrorCode), err)
	case errors.Is(err, jetstream.ErrStreamNotFound), errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		return &settle.PublishError{Scope: settle.ScopeTopic, Err: err}
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout):
		err = fmt.Errorf("no answer in time, the outcome is unknown: %w", err)
	}
	return &settle.PublishError{Scope: settle.ScopeBroker, Err: err}
}

func byCode(code int, err error) *settle.PublishError {
	switch code {
	case codeRecordTooLarge, codeHeaderTooLarge:
		return &settle.PublishError{Scope: settle.ScopeRecord, Err: settle.Permanent(err)}
	case codeDuplicatePlaced, codeNotAvailable, codeNotLeader, codeTooManyRequests:
		return &settle.PublishError{Scope: settle.ScopeBroker, Err: err}
	}
	// Full (10077), missing, sealed, no resources, another stream, a setting
	// that refuses: none of it is the record's fault.
	return &settle.PublishError{Scope: settle.ScopeTopic, Err: err}
}

// deniedSubject finds the subject in the server's permission error.
func deniedSubject(err error) (string, bool) {
	if !errors.Is(err, nats.ErrPermissionViolation) {
		return "", false
	}
	_, rest, ok := strings.Cut(err.Error(), `Publish to "`)
	if !ok {
		return "", false
	}
	subject, _, ok := strings.Cut(rest, `"`)
	return subject, ok
}
