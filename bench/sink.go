package main

import "errors"

// errRefused is what the sink says of an event of the poisoned key.
var errRefused = errors.New("the record is refused")

// sink stands for a broker that takes everything at once: what is measured is
// the way there. It may be called from several goroutines.
type sink struct {
	board *board
	// keys is how many keys there are, and poisoned the one that is refused,
	// -1 for none.
	keys, poisoned int
}

// publish takes the event with this id; value is what a broker would be given.
func (s *sink) publish(id string, value []byte) error {
	n, err := eventNumber(id)
	if err != nil {
		return err
	}
	if len(value) < payloadBytes {
		return errors.New("a value that has no payload")
	}
	if n%s.keys == s.poisoned {
		return errRefused
	}
	return s.board.publish(n)
}

// acknowledged counts the event with this id, which a real broker has taken.
func (s *sink) acknowledged(id string) error {
	n, err := eventNumber(id)
	if err != nil {
		return err
	}
	return s.board.publish(n)
}
