package rabbitmq

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/settlemq/settle"
)

// classify says how much an error of a channel speaks of. What it does not
// know is of unknown outcome.
func classify(err error) *settle.PublishError {
	var known *settle.PublishError
	if errors.As(err, &known) {
		return known
	}
	switch code(err) {
	case amqp.NotFound, amqp.AccessRefused, amqp.PreconditionFailed, amqp.ResourceLocked:
		return &settle.PublishError{Scope: settle.ScopeTopic, Err: explain(err)}
	}
	return &settle.PublishError{Scope: settle.ScopeBroker, Err: err}
}

// isTooLarge reports whether the broker has closed a channel because a message
// is larger than it takes.
func isTooLarge(err error) bool {
	var said *amqp.Error
	return errors.As(err, &said) && said.Code == amqp.PreconditionFailed && strings.Contains(said.Reason, "message size")
}

// code is the broker's reply code, 0 where it said nothing.
func code(err error) int {
	var said *amqp.Error
	if errors.As(err, &said) && said.Server {
		return said.Code
	}
	return 0
}

// inequivalent is how RabbitMQ says that something exists and differs.
var inequivalent = regexp.MustCompile(`inequivalent arg '([^']+)' for (exchange|queue) '([^']+)' in vhost '[^']*': received (.+) but current is (.+)`)

// explain says what an error of a declaration means for whoever has to mend it.
func explain(err error) error {
	var said *amqp.Error
	if !errors.As(err, &said) {
		return err
	}
	switch said.Code {
	case amqp.PreconditionFailed:
		m := inequivalent.FindStringSubmatch(said.Reason)
		if m == nil {
			return err
		}
		return fmt.Errorf("the %s %q exists and differs: its %s is %s, declared is %s; RabbitMQ changes no argument of what exists: delete it when it is empty, or declare it as it is (%w)",
			m[2], m[3], m[1], value(m[5]), value(m[4]), err)
	case amqp.AccessRefused:
		return fmt.Errorf("the user may not do this; rabbitmqctl set_permissions gives the right: %w", err)
	}
	return err
}

// value is "the value '5' of type 'long'" without its words, and quoted.
func value(said string) string {
	said, _, _ = strings.Cut(strings.TrimPrefix(said, "the value "), " of type ")
	if text, quoted := strings.CutPrefix(said, "'"); quoted {
		return strconv.Quote(strings.TrimSuffix(text, "'"))
	}
	return said
}

// explainRefusal says why the broker did not let us in.
func explainRefusal(err error, at address) error {
	var said *amqp.Error
	switch {
	case errors.Is(err, amqp.ErrCredentials), code(err) == amqp.AccessRefused:
		return &refusedError{fmt.Sprintf("the broker refuses user %q with this password", at.user), err}
	case errors.As(err, &said) && said.Code == amqp.NotAllowed:
		return &refusedError{fmt.Sprintf("user %q may not use virtual host %q, or there is none of this name", at.user, at.vhost), err}
	}
	var untrusted *tls.CertificateVerificationError
	var plain tls.RecordHeaderError
	switch {
	case errors.As(err, &untrusted):
		return &refusedError{"its certificate can't be trusted (tls_ca names a file of authorities, tls_name a name): " + untrusted.Err.Error(), err}
	case errors.As(err, &plain):
		return &refusedError{"it does not speak TLS on this port", err}
	}
	return err
}

// refusedError is an answer that the same words will get again.
type refusedError struct {
	what string
	err  error
}

func (r *refusedError) Error() string { return r.what }
func (r *refusedError) Unwrap() error { return r.err }

// unknown is the outcome of what was sent and not answered.
func unknown(err error) error {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		err = fmt.Errorf("no answer in time, the outcome is unknown: %w", err)
	}
	return &settle.PublishError{Scope: settle.ScopeBroker, Err: err}
}
