package remoting

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Codes with which servers refuse, as far as callers act on them.
const (
	// TopicMissing: nobody has such a topic.
	TopicMissing = 17
	// NotFound: there is no such entry, position or message.
	NotFound = 22
	// GroupMissing: there is no such consumer group.
	GroupMissing = 26
	// NoRight: the account may not do this, or there is no such account.
	NoRight = 16
)

// Refusal is an answer of a server that did not do what it was asked for.
type Refusal struct {
	// Server is the address of who answered, Request the code of what was asked.
	Server  string
	Request int
	// Code and Remark are the server's.
	Code   int
	Remark string
}

func (r *Refusal) Error() string {
	// Some remarks are a Java stack: its first line says what happened.
	remark, _, _ := strings.Cut(strings.TrimSpace(r.Remark), "\n")
	if len(remark) > remarkAtMost {
		remark = strings.ToValidUTF8(remark[:remarkAtMost], "") + "…"
	}
	if remark == "" {
		remark = "it gives no reason"
	}
	return fmt.Sprintf("RocketMQ at %s refuses request %d with code %d: %s", r.Server, r.Request, r.Code, remark)
}

// remarkAtMost bounds what is shown of a remark.
const remarkAtMost = 300

// IsRefusal reports whether err is a refusal with one of these codes.
func IsRefusal(err error, codes ...int) bool {
	var r *Refusal
	return errors.As(err, &r) && slices.Contains(codes, r.Code)
}

// request asks, and makes any answer but a success, or one of these codes, a
// *Refusal.
func (c *Client) request(ctx context.Context, addr string, cmd Command, also ...int) (Answer, error) {
	a, err := c.Ask(ctx, addr, cmd)
	if err == nil && a.Code != 0 && !slices.Contains(also, a.Code) {
		err = &Refusal{Server: addr, Request: cmd.Code, Code: a.Code, Remark: a.Remark}
	}
	return a, err
}

// unreadable is an answer that is not what was asked for.
func unreadable(addr string, request int, err error) error {
	return fmt.Errorf("read the answer of %s to request %d: %w", addr, request, err)
}

// number reads a field of an answer that must be there.
func (a Answer) number(addr string, request int, field string) (int64, error) {
	n, err := strconv.ParseInt(a.Fields[field], 10, 64)
	if err != nil {
		return 0, unreadable(addr, request, fmt.Errorf("its %s is %q", field, a.Fields[field]))
	}
	return n, nil
}
