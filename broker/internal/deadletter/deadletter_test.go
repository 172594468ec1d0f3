package deadletter

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestWhatIsCutIsTextWithinItsLimit(t *testing.T) {
	for _, s := range []string{"", "short", strings.Repeat("ä", 100), strings.Repeat("界", 100), strings.Repeat("\xff", 1000), "a\x00b", strings.Repeat("x", 10) + "\xe7\x95"} {
		for limit := 10; limit < 20; limit++ {
			got := Cut(s, limit)
			if len(got) > limit || !utf8.ValidString(got) || strings.Contains(got, "\x00") {
				t.Errorf("%q cut to %d bytes is %q", s, limit, got)
			}
			if len(s) > limit != strings.HasSuffix(got, "…") && IsText(s) {
				t.Errorf("%q cut to %d bytes is %q, which does not say whether it was cut", s, limit, got)
			}
		}
	}
}

func TestOfWhatSpringWrapsTheCauseIsThrown(t *testing.T) {
	for trace, want := range map[string]string{
		"java.lang.IllegalStateException: no stock\n\tat a.B.c(B.java:1)\n": "java.lang.IllegalStateException",
		"org.springframework.amqp.rabbit.support.ListenerExecutionFailedException: Listener threw\n\tat x\nCaused by: java.lang.IllegalStateException: no stock\n\tat y\nCaused by: z.Root\n": "java.lang.IllegalStateException",
		"org.springframework.kafka.listener.ListenerExecutionFailedException\n\tat x\n":                                                                                                       "org.springframework.kafka.listener.ListenerExecutionFailedException",
		"":                            "",
		"no trace of Java's at all\n": "",
	} {
		if got := Thrown(trace); got != want {
			t.Errorf("thrown by %q is %q, want %q", trace, got, want)
		}
	}
}
