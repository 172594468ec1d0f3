package nats_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/nats"
	"github.com/settlemq/settle/broker/nats/embedded"
)

func TestBytesThatBase64MakesTooLargeForTheBrokerAreRefusedAloneAndTheErrorSaysWhy(t *testing.T) {
	s, err := embedded.Start(embedded.Config{Dir: t.TempDir(), MaxRecord: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	b, err := nats.Open(t.Context(), s.URL(), config())
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	binary := func(id string, size int) settle.Message {
		m := message(id, "k-"+id)
		m.Event.ContentType, m.Event.Payload = "application/octet-stream", bytes.Repeat([]byte{0xff}, size)
		return m
	}
	receipts := b.Publish(t.Context(), []settle.Message{binary("large", settle.MaxPayload), binary("fits", 785_000), message("small", "k")})
	if err := receipts[0].Err; err == nil || settle.ScopeOf(err) != settle.ScopeRecord || !settle.IsPermanent(err) || !strings.Contains(err.Error(), "travels as base64") {
		t.Errorf("a record that is too large is refused with %v", err)
	}
	for i, r := range receipts[1:] {
		if r.Err != nil {
			t.Errorf("message %d behind it: %v", i+1, r.Err)
		}
	}
}
