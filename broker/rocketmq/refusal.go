package rocketmq

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/rocketmq/remoting"
)

// Codes of a broker's answers.
const (
	codeBusy              = 2  // its queue is full, or the request has waited too long
	codeFlushDiskTimeout  = 10 // stored, not on the disk
	codeSlaveNotAvailable = 11 // stored, on no slave
	codeFlushSlaveTimeout = 12
	codeIllegal           = 13 // too large, or not to be kept as it is
	codeNotAvailable      = 14 // a slave, shutting down, a full disk
	codeNoPermission      = 16
	codeNoTopic           = 17
	codeNoGroup           = 26
	codeInvalid           = 29 // a parameter
	codeFlowControl       = 215
)

// classify says how much an error of a request speaks of. What it does not know is
// of unknown outcome.
func classify(err error) *settle.PublishError {
	var known *settle.PublishError
	if errors.As(err, &known) {
		return known
	}
	scope := settle.ScopeBroker
	var said *remoting.Refusal
	var not *remoting.NotSentError
	switch {
	case errors.As(err, &said):
		return byCode(said)
	case errors.As(err, &not):
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		err = fmt.Errorf("no answer in time, the outcome is unknown: %w", err)
	default:
		err = fmt.Errorf("the outcome is unknown: %w", err)
	}
	return &settle.PublishError{Scope: scope, Err: err}
}

func byCode(said *remoting.Refusal) *settle.PublishError {
	broker := func(why string) *settle.PublishError {
		return &settle.PublishError{Scope: settle.ScopeBroker, Err: fmt.Errorf("%s: %w", why, said)}
	}
	topic := func(why string) *settle.PublishError {
		return &settle.PublishError{Scope: settle.ScopeTopic, Err: fmt.Errorf("%s: %w", why, said)}
	}
	switch said.Code {
	case codeFlushDiskTimeout:
		return broker("it is stored and not yet on the disk, so the outcome is unknown")
	case codeSlaveNotAvailable, codeFlushSlaveTimeout:
		return broker("it is stored and on too few slaves, so the outcome is unknown")
	case codeIllegal:
		return &settle.PublishError{Scope: settle.ScopeRecord, Err: settle.Permanent(said)}
	case codeNoTopic:
		return topic("there is no such topic there")
	case codeNoPermission:
		return topic(refusedRight(said))
	case codeInvalid:
		return topic("the broker refuses where it is to go; the list of the topic's queues is not what it has")
	case codeBusy, codeFlowControl:
		return broker("the broker is busy")
	case codeNotAvailable:
		return broker("the broker takes nothing now")
	}
	return broker("the outcome is unknown")
}

// refusedRight tells a user who is not let in from a topic that takes nothing.
func refusedRight(said *remoting.Refusal) string {
	if strings.Contains(said.Remark, "forbidden") {
		return "nothing may be written there"
	}
	return "the access key is not let in, or has no right to this"
}

// noTopic is the error of an event whose topic can't be one of RocketMQ's.
func noTopic(why string) *settle.PublishError {
	return &settle.PublishError{Scope: settle.ScopeRecord, Err: settle.Permanent(errors.New(why))}
}

// hopeless says what is to be mended where the same words would get the same answer
// again, and is empty for the rest.
func (a address) hopeless(err error) string {
	var untrusted *tls.CertificateVerificationError
	var plain tls.RecordHeaderError
	switch {
	case remoting.IsRefusal(err, codeNoPermission) && a.accessKey == "":
		return "it lets nobody in without an access key and its secret key, which stand before the hosts"
	case remoting.IsRefusal(err, codeNoPermission):
		return fmt.Sprintf("it refuses access key %q with this secret key", a.accessKey)
	case errors.As(err, &untrusted):
		return "its certificate can't be trusted (tls_ca names a file of authorities, tls_name a name)"
	case errors.As(err, &plain):
		return "it does not speak TLS on this port"
	}
	return ""
}
