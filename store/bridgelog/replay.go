package bridgelog

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/settlemq/settle/govern"
)

// Why a dead letter can't be dealt with in a way.
const (
	// NotForeign: only what is not ours goes anywhere but to its own place.
	NotForeign = "it goes back to its own place: where to is a question of dead letters of consumers that are not ours"
	// NoCompensation: nothing of ours has handled it.
	NoCompensation = "its consumer is not ours and compensates by itself; replay it, or discard it"
)

// Target returns where a letter of a consumer that is not ours goes back to, by
// what was asked for, or why it can't go there.
func Target(asked govern.Target, group string, kept []byte) (to govern.Target, why string) {
	to = asked
	if to == "" {
		to = govern.ToGroup
	}
	var t told
	if json.Unmarshal(kept, &t) != nil {
		return "", "what it tells of itself can't be read"
	}
	switch {
	case to != govern.ToGroup && to != govern.ToOrigin:
		return "", fmt.Sprintf("it can't go back to %q; there are %s and %s", string(to), govern.ToGroup, govern.ToOrigin)
	case slices.Contains(t.To, to):
		return to, ""
	case to == govern.ToOrigin:
		return "", "it does not tell where it came from; its group alone can receive it again"
	case slices.Contains(t.To, govern.ToOrigin):
		return "", fmt.Sprintf("there is no way to group %s alone; to its origin it can go, and every group that reads there receives it again", group)
	}
	return "", fmt.Sprintf("there is no way back to group %s, and it does not tell where it came from", group)
}
