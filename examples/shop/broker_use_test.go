package shop

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/dial"
)

func TestADirectoryRemembersItsBrokerAndTakesNoOther(t *testing.T) {
	dir := t.TempDir()
	if use, err := Broker(dir); use.URL != "" || use.Topic() != settle.DefaultTopic || err != nil {
		t.Fatalf("before: %+v, %v", use, err)
	}
	if err := UseBroker(dir, "kafka://u:old@127.0.0.1:9092,127.0.0.1:9093?sasl=plain"); err != nil {
		t.Fatal(err)
	}
	if file, err := os.Stat(filepath.Join(dir, brokerFile)); err != nil || file.Mode().Perm() != 0o600 {
		t.Errorf("its file is readable for others: %v, %v", file.Mode(), err)
	}
	first, err := Broker(dir)
	if err != nil || !strings.HasSuffix(first.Topic(), "."+settle.DefaultTopic) || len(first.Groups()) != len(serviceNames()) {
		t.Fatalf("%+v, %v", first, err)
	}
	for _, group := range first.Groups() {
		if !strings.HasPrefix(group, first.Prefix) {
			t.Errorf("the group %s is not the shop's own", group)
		}
	}
	other := t.TempDir()
	if err := UseBroker(other, "kafka://127.0.0.1:9092"); err != nil {
		t.Fatal(err)
	}
	if second, err := Broker(other); err != nil || second.Topic() == first.Topic() {
		t.Errorf("two directories share %s, %v", second.Topic(), err)
	}
	memberIn(t, dir, "order") // from now on a shop is there
	const again = "kafka://u:new@127.0.0.1:9093"
	if err := UseBroker(dir, again); err != nil {
		t.Fatal(err)
	}
	if now, err := Broker(dir); err != nil || now.URL != again || now.Prefix != first.Prefix {
		t.Errorf("now %+v, %v; want the names of %+v", now, err, first)
	}
	if err := UseBroker(dir, "kafka://127.0.0.1:9094"); !errors.Is(err, ErrOtherBroker) {
		t.Errorf("another cluster: %v", err)
	}
	if err := UseBroker(dir, "rabbitmq://u:new@127.0.0.1:9093"); !errors.Is(err, ErrOtherBroker) {
		t.Errorf("another kind of broker: %v", err)
	}
	embedded := t.TempDir()
	memberIn(t, embedded, "order")
	if err := UseBroker(embedded, again); !errors.Is(err, ErrOtherBroker) {
		t.Errorf("a shop with a broker of its own: %v", err)
	}
}

func TestAShopOnRabbitMQKeepsItsVirtualHost(t *testing.T) {
	dir := t.TempDir()
	if err := UseBroker(dir, "rabbitmq://u:old@h:5672,i:5672/"); err != nil {
		t.Fatal(err)
	}
	memberIn(t, dir, "order")
	for _, same := range []string{"amqp://u:new@i:5672", "amqps://u:new@i:5672/%2F?tls_ca=/ca.pem"} {
		if err := UseBroker(dir, same); err != nil {
			t.Errorf("%s: %v", same, err)
		}
	}
	for _, other := range []string{"rabbitmq://u:old@h:5672/other", "rabbitmq://u:old@j:5672/"} {
		if err := UseBroker(dir, other); !errors.Is(err, ErrOtherBroker) {
			t.Errorf("%s: %v", other, err)
		}
	}
}

func TestABrokerThatAShopCanNotUseIsRefusedWithoutItsSecret(t *testing.T) {
	var wrong *dial.URLError
	if err := UseBroker(t.TempDir(), "kafka://u:canary@h:9092?ssl=true"); !errors.As(err, &wrong) || strings.Contains(err.Error(), "canary") {
		t.Errorf("an unknown option: %v", err)
	}
	if err := UseBroker(t.TempDir(), "redis://canary@h:4222"); err == nil || strings.Contains(err.Error(), "canary") || !strings.Contains(err.Error(), "kafka://") {
		t.Errorf("another kind of broker: %v", err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, brokerFile), []byte("kafka://u:canary@h"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Broker(dir); err == nil || strings.Contains(err.Error(), "canary") || !strings.Contains(err.Error(), brokerFile) {
		t.Errorf("a file that somebody else wrote: %v", err)
	}
}
