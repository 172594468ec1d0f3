package outboxlog_test

import (
	"slices"
	"testing"

	"github.com/settlemq/settle/store/outboxlog"
)

func TestBlocksOfIDsAreToldFromGaps(t *testing.T) {
	list := func(f func(add func(int64))) (ids []int64) {
		f(func(id int64) { ids = append(ids, id) })
		slices.Sort(ids)
		return slices.Compact(ids)
	}
	for _, c := range []struct {
		name             string
		ids              []int64
		increment, start int64
		want             int64
	}{
		{"none", nil, 1, 1, 1},
		{"one by one", list(func(add func(int64)) {
			for i := range int64(100) {
				add(i)
			}
		}), 1, 1, 1},
		{"every fourth rolled back", list(func(add func(int64)) {
			for i := range int64(400) {
				if i*i%7 != 0 {
					add(i)
				}
			}
		}), 1, 1, 1},
		{"a sequence that steps", []int64{1, 11, 21, 41}, 10, 1, 1},
		{"ids between the steps", []int64{1, 11, 12, 41}, 10, 1, 10},
		{"every tenth, without its step", []int64{10, 20, 30, 40, 50, 60, 70, 80}, 1, 1, 1},
		{"few jumps", []int64{1, 51, 52, 101}, 1, 1, 1},
		{"blocks of 50", list(func(add func(int64)) {
			for b := range int64(8) {
				for i := range b + 2 {
					add(b*50 + i)
				}
			}
		}), 1, 1, 50},
	} {
		if got := outboxlog.BlockSize(c.ids, c.increment, c.start); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}
