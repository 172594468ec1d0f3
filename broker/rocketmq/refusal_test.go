package rocketmq

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/rocketmq/remoting"
)

func TestEachAnswerOfABrokerIsSomebodysFault(t *testing.T) {
	for _, c := range []struct {
		code  int
		scope settle.Scope
		says  string
	}{
		{1, settle.ScopeBroker, "outcome is unknown"},
		{2, settle.ScopeBroker, "busy"},
		{3, settle.ScopeBroker, "outcome is unknown"},
		{10, settle.ScopeBroker, "not yet on the disk"},
		{11, settle.ScopeBroker, "too few slaves"},
		{12, settle.ScopeBroker, "too few slaves"},
		{13, settle.ScopeRecord, ""},
		{14, settle.ScopeBroker, "takes nothing now"},
		{16, settle.ScopeTopic, "access key"},
		{17, settle.ScopeTopic, "no such topic"},
		{29, settle.ScopeTopic, "list of the topic's queues"},
		{215, settle.ScopeBroker, "busy"},
		{4711, settle.ScopeBroker, "outcome is unknown"},
	} {
		got := classify(&remoting.Refusal{Server: "h:1", Code: c.code, Remark: "because"})
		if got.Scope != c.scope || !strings.Contains(got.Error(), c.says) || !strings.Contains(got.Error(), "because") {
			t.Errorf("code %d: %v; want scope %v and %q", c.code, got, c.scope, c.says)
		}
		if settle.IsPermanent(got) != (c.scope == settle.ScopeRecord) {
			t.Errorf("code %d: for good is %v", c.code, settle.IsPermanent(got))
		}
	}
	got := classify(&remoting.Refusal{Code: 16, Remark: "the broker[127.0.0.1] sending message is forbidden"})
	if got.Scope != settle.ScopeTopic || !strings.Contains(got.Error(), "nothing may be written") {
		t.Errorf("a broker that is closed to writers: %v", got)
	}
}

func TestWhatWasNotAnsweredIsOfUnknownOutcomeAndWhatWasNotSentIsNot(t *testing.T) {
	for _, err := range []error{context.DeadlineExceeded, context.Canceled, io.ErrUnexpectedEOF} {
		if got := classify(err); got.Scope != settle.ScopeBroker || !strings.Contains(got.Error(), "outcome is unknown") {
			t.Errorf("%v: %v", err, got)
		}
	}
	got := classify(&remoting.NotSentError{Err: errors.New("connection refused")})
	if got.Scope != settle.ScopeBroker || strings.Contains(got.Error(), "unknown") || !strings.Contains(got.Error(), "not sent") {
		t.Errorf("it was not sent: %v", got)
	}
}
