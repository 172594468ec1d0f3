package brokertest

import (
	"os"
	"strings"
	"testing"
)

func TestThePageOnAddingABrokerHasEachSentenceOfTheContract(t *testing.T) {
	b, err := os.ReadFile("../../docs/adding-a-broker.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(b)
	for _, c := range cases {
		if !strings.Contains(page, "\n| "+c.name+" | ") {
			t.Errorf("docs/adding-a-broker.md does not have %q as a row", c.name)
		}
	}
}
