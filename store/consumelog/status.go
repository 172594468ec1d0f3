package consumelog

// Statuses of t_message_consume_log that we write. A foreign consumer may also
// have left PROCESSING, SUCCESS and FAILED.
const (
	StatusApplied    = "APPLIED"
	StatusRejected   = "REJECTED"
	StatusDuplicate  = "DUPLICATE"
	StatusParked     = "PARKED"
	StatusDead       = "DEAD"
	StatusDiscarded  = "DISCARDED"
	StatusSuperseded = "SUPERSEDED"
	// StatusCompensated: a person gave up on it, and its compensation is done.
	StatusCompensated = "COMPENSATED"
	StatusSuccess     = "SUCCESS"
)

// Final reports whether an event with this status is done with.
func Final(status string) bool {
	switch status {
	case StatusApplied, StatusSuccess, StatusRejected, StatusDuplicate, StatusCompensated, StatusDiscarded, StatusSuperseded:
		return true
	}
	return false
}

// effective reports whether status says that the business has answered.
func effective(status string) bool {
	return Final(status) && status != StatusDiscarded && status != StatusSuperseded
}

// waiting reports whether the event is kept by us and needs no delivery.
func waiting(status string) bool { return status == StatusParked || status == StatusDead }
