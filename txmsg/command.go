package txmsg

import "time"

// Command is what the machine wants done. Each is answered by one input.
type Command interface{ isCommand() }

// The commands. Of WarmUp, Listen, Look, Note, Confirm and Purge at most one each
// is under way.
type (
	// WarmUp makes the process known to the broker: answered by Warmed.
	WarmUp struct{}
	// Listen takes checks in until that ends: Deaf.
	Listen struct{}
	// Judge asks the database: Judged.
	Judge struct {
		Check   Check
		Inquiry Inquiry
	}
	// Answer answers the broker: Replied.
	Answer struct {
		Check   Check
		Verdict Verdict
	}
	// Note keeps answers that no row decides: Noted.
	Note struct{ Answers []Answered }
	// Confirm notes what the broker has committed: ConfirmedAll.
	Confirm struct{ IDs []string }
	// Look asks for records that are due: Found.
	Look struct {
		Limit int
		Hold  time.Duration
	}
	// EndAgain tells the broker a commit again: EndedAgain.
	EndAgain struct{ Open Open }
	// SendAnew sends the message of a record as another half message: SentAnew.
	SendAnew struct{ Open Open }
	// MarkOpen notes what came of a record: Marked.
	MarkOpen struct {
		Open Open
		Mark Mark
	}
	// Purge deletes old records: Purged.
	Purge struct {
		Keep  time.Duration
		Limit int
	}
)

func (WarmUp) isCommand()   {}
func (Listen) isCommand()   {}
func (Judge) isCommand()    {}
func (Answer) isCommand()   {}
func (Note) isCommand()     {}
func (Confirm) isCommand()  {}
func (Look) isCommand()     {}
func (EndAgain) isCommand() {}
func (SendAnew) isCommand() {}
func (MarkOpen) isCommand() {}
func (Purge) isCommand()    {}

// Input is what has happened; nil: time has passed.
type Input interface{ isInput() }

// The inputs.
type (
	// Warmed: the broker knows the process, unless Err says why not.
	Warmed struct{ Err error }
	// Deaf: checks are not heard any more.
	Deaf struct{ Err error }
	// Checked: the broker asks.
	Checked struct{ Check Check }
	// Judged is the database's answer to Judge.
	Judged struct {
		Check   Check
		Verdict Verdict
		Err     error
	}
	// Replied is how an answer went out.
	Replied struct {
		Check   Check
		Verdict Verdict
		Err     error
	}
	// Noted and ConfirmedAll are the database's answers.
	Noted        struct{ Err error }
	ConfirmedAll struct{ Err error }
	// Delivered: the broker has confirmed this transaction.
	Delivered struct{ ID string }
	// Found is the database's answer to Look.
	Found struct {
		Open []Open
		Err  error
	}
	// EndedAgain and SentAnew are the broker's answers.
	EndedAgain struct {
		Open Open
		Err  error
	}
	SentAnew struct {
		Open   Open
		Handle Handle
		Err    error
	}
	// Marked is the database's answer to MarkOpen.
	Marked struct {
		Open Open
		Mark Mark
		Err  error
	}
	// Purged is the database's answer to Purge.
	Purged struct {
		Rows int
		Err  error
	}
)

func (Warmed) isInput()       {}
func (Deaf) isInput()         {}
func (Checked) isInput()      {}
func (Judged) isInput()       {}
func (Replied) isInput()      {}
func (Noted) isInput()        {}
func (ConfirmedAll) isInput() {}
func (Delivered) isInput()    {}
func (Found) isInput()        {}
func (EndedAgain) isInput()   {}
func (SentAnew) isInput()     {}
func (Marked) isInput()       {}
func (Purged) isInput()       {}
