package mysql

import (
	"fmt"
	"math"
	"strings"

	"github.com/settlemq/settle/relay"
	"github.com/settlemq/settle/store/outboxlog"
)

// laneOf is SQL for the index of the lane among so many that owns a row, by its
// id and key, as relay.LaneOf has it; a row without a key is alone with its own.
// It is NULL where there is no row. The key is hashed as its bytes, so it does
// not matter how a server compares text.
func laneOf(id, key string, lanes int) string {
	return fmt.Sprintf(`CAST(CONV(LEFT(MD5(IF(coalesce(LENGTH(%[2]s), 0) = 0, CONCAT('#', %[1]s), %[2]s)), 8), 16, 10) AS UNSIGNED) %% %[3]d`, id, key, lanes)
}

// ownRows is the condition, behind others, that rows are of the lane which this
// Log leads; none where that is the only one. What has no row is the first
// lane's to find.
func (l *Log) ownRows(id, key string) string {
	lane := l.lane()
	if lane.Of == 1 {
		return ""
	}
	return fmt.Sprintf(" AND coalesce(%s, 0) = %d", laneOf(id, key, lane.Of), lane.Index)
}

const (
	// What a lane of several reads: ids and keys first, then the rows of its own
	// keys only. Of another lane's rows nothing more is read, be it on another
	// page of the disk, and nothing more is sent.
	pollLane = pollFirst + `(SELECT NULL, NULL, NULL, f.elsewhere, NULL, f.id, f.event_id, e.event_type, e.aggregate_type, e.aggregate_id, e.aggregate_seq,
 e.biz_key, e.trace_id, e.causation_id, e.supersedes, e.topic, e.version, e.content_type, e.occurred_at, e.appended_at, e.not_before, e.headers, e.payload FROM
(%s
 (SELECT %s FROM ` + logRows + ` WHERE e.id > ? AND e.id <= ? ORDER BY e.id LIMIT ?)
 ORDER BY id LIMIT ?) f LEFT JOIN t_outbox_event e ON NOT f.elsewhere AND e.id = f.id ORDER BY f.id LIMIT ?)`

	markedRow = `e.id, e.event_id, %s <> %d AS elsewhere`
)

// pollOfLane is the page of a lane of several. Rows of the others cost little:
// there may be so many of them that about a page of its own is left.
func pollOfLane(q relay.PollQuery, lane relay.Lane, room *outboxlog.Budget) (string, []any) {
	upTo := q.UpTo
	if upTo == 0 {
		upTo = math.MaxInt64
	}
	room.Others = room.Rows * (lane.Of - 1)
	limit := room.Limit()
	marked := fmt.Sprintf(markedRow, laneOf("e.id", "e.aggregate_id", lane.Of), lane.Index)
	var arms strings.Builder
	args := []any{lane.Number}
	for _, find := range findQueries(outboxlog.Runs(outboxlog.Below(q.Holes, q.After)), marked, "") {
		arms.WriteString("(" + find.query + ")\n UNION ALL\n ")
		args = append(append(args, find.args...), limit)
	}
	return fmt.Sprintf(pollLane, arms.String(), marked), append(args, q.After, upTo, limit, limit, limit)
}
