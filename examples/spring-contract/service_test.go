package springcontract_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// zone is the JVM's: its local time is eight hours ahead of UTC.
const zone = "Asia/Shanghai"

// jar builds the service, once.
var jar = sync.OnceValues(func() (string, error) {
	var errs bytes.Buffer
	cmd := exec.Command("./build")
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("build the service: %w\n%s", err, errs.String())
	}
	return strings.TrimSpace(string(out)), err
})

// service is the Java process.
type service struct {
	cmd   *exec.Cmd
	base  string
	log   *lockedBuffer
	ended chan error
}

var (
	listens    = regexp.MustCompile(`Tomcat started on port (\d+)`)
	complaints = regexp.MustCompile(`(?m)^.*(?:WARN|ERROR|Caused by).*$`)
)

// start runs the service on d and waits until it takes requests.
func start(t *testing.T, d database, profiles ...string) *service {
	t.Helper()
	at, err := jar()
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skipf("SKIPPED, NOTHING OF THIS IS PROVED: %v", err)
	}
	password, _ := d.url.User.Password()
	s := &service{log: &lockedBuffer{}, ended: make(chan error, 1)}
	s.cmd = exec.Command("java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Duser.timezone="+zone, "-jar", at)
	s.cmd.Env = append(os.Environ(),
		"SPRING_DATASOURCE_URL=jdbc:postgresql://"+d.url.Host+d.url.Path,
		"SPRING_DATASOURCE_USERNAME="+d.url.User.Username(),
		"SPRING_DATASOURCE_PASSWORD="+password,
		"SPRING_PROFILES_ACTIVE="+strings.Join(profiles, ","),
		"RELAY_SEND_TIMEOUT=10",
		"SERVER_PORT=0")
	s.cmd.Stdout, s.cmd.Stderr = s.log, s.log
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { s.ended <- s.cmd.Wait() }()
	t.Cleanup(func() {
		if s.cmd.ProcessState == nil {
			_ = s.cmd.Process.Kill() // does nothing to one that has ended
			<-s.ended
		}
		if t.Failed() {
			t.Logf("the service:\n%s", complaints.FindAllString(s.log.String(), 20))
		}
	})
	until(t, "the service starts", func() bool {
		if m := listens.FindStringSubmatch(s.log.String()); m != nil {
			s.base = "http://127.0.0.1:" + m[1]
		}
		select {
		case err := <-s.ended:
			t.Fatalf("the service ended: %v\n%s", err, s.log)
		default:
		}
		return s.base != ""
	})
	return s
}

// stop asks the service to end and waits.
func (s *service) stop(t *testing.T) {
	t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-s.ended:
	case <-time.After(time.Minute):
		t.Fatalf("the service does not end:\n%s", s.log)
	}
	if code := s.cmd.ProcessState.ExitCode(); code != 128+int(syscall.SIGTERM) {
		t.Errorf("the service ends with %d", code)
	}
}

// answer is the event that the service says it has committed.
type answer struct {
	EventID     string `json:"eventId"`
	EventType   string `json:"eventType"`
	AggregateID string `json:"aggregateId"`
}

// post sends a body and reads the answer into a, unless that is nil.
func (s *service) post(path string, body, a any) error {
	b, err := json.Marshal(body)
	if err != nil {
		return err
	}
	return s.postText(path, string(b), a)
}

func (s *service) postText(path, body string, a any) error {
	res, err := http.Post(s.base+path, "application/json", strings.NewReader(body))
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	switch {
	case err != nil:
		return err
	case res.StatusCode/100 != 2:
		return fmt.Errorf("POST %s: %s\n%s", path, res.Status, b)
	case a == nil:
		return nil
	}
	return json.Unmarshal(b, a)
}

// create orders something and returns the event of it.
func (s *service) create(t *testing.T, orderID, amount string) answer {
	t.Helper()
	var a answer
	if err := s.post("/orders", map[string]any{"orderId": orderID, "userId": 7, "amount": json.Number(amount)}, &a); err != nil {
		t.Fatal(err)
	}
	return a
}
