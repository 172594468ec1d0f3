package shop

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func orderJSON(t testing.TB, r OrderRequest) string {
	t.Helper()
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestAmountsBecomeCentsExactly(t *testing.T) {
	for text, want := range map[string]Cents{
		"0": 0, "0.00": 0, "11.77": 1177, "11.7": 1170, "007": 700, "0.29": 29, "1.15": 115,
		"9007199254740.99": -1, "1000000000.00": MaxAmount, "1000000000.01": -1, "1e3": -1,
		"-1": -1, "-0": -1, "+1": -1, "1.": -1, ".5": -1, "": -1, ".": -1, "1.234": -1, "1,5": -1, "٣": -1, "0x1": -1, " 1": -1, "NaN": -1,
	} {
		got, err := ParseCents(text)
		if err != nil {
			got = -1
		}
		if got != want {
			t.Errorf("ParseCents(%q) = %d, %v; want %d", text, got, err, want)
		}
	}
}

func TestAnAmountSurvivesItsText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := Cents(rapid.Int64Range(0, int64(MaxAmount)).Draw(t, "cents"))
		var back Cents
		b, err := json.Marshal(c)
		if err != nil || json.Unmarshal(b, &back) != nil || back != c {
			t.Fatalf("%d became %s became %d", c, b, back)
		}
	})
}

func TestAnOrderBodyIsCheckedFieldByField(t *testing.T) {
	item := `[{"sku":"a","quantity":1}]`
	for _, c := range []struct{ name, body, field string }{
		{"nothing", `{}`, "customerId"},
		{"customer is a number", `{"customerId":1,"amount":"1","items":` + item + `}`, "customerId"},
		{"customer is empty", `{"customerId":"","amount":"1","items":` + item + `}`, "customerId"},
		{"customer has a line end", `{"customerId":"a\nb","amount":"1","items":` + item + `}`, "customerId"},
		{"customer is long", `{"customerId":"` + strings.Repeat("a", 65) + `","amount":"1","items":` + item + `}`, "customerId"},
		{"amount is missing", `{"customerId":"c","items":` + item + `}`, "amount"},
		{"amount is null", `{"customerId":"c","amount":null,"items":` + item + `}`, "amount"},
		{"amount is negative", `{"customerId":"c","amount":-1,"items":` + item + `}`, "amount"},
		{"amount is huge", `{"customerId":"c","amount":99999999999999999999,"items":` + item + `}`, "amount"},
		{"amount has an exponent", `{"customerId":"c","amount":1e2,"items":` + item + `}`, "amount"},
		{"amount has three decimals", `{"customerId":"c","amount":"1.234","items":` + item + `}`, "amount"},
		{"amount is true", `{"customerId":"c","amount":true,"items":` + item + `}`, "amount"},
		{"items is missing", `{"customerId":"c","amount":"1"}`, "items"},
		{"items is empty", `{"customerId":"c","amount":"1","items":[]}`, "items"},
		{"10,000 items", `{"customerId":"c","amount":"1","items":[` + strings.Repeat("1,", 9999) + `1]}`, "items"},
		{"item is a number", `{"customerId":"c","amount":"1","items":[7]}`, "items[0]"},
		{"item has a price", `{"customerId":"c","amount":"1","items":[{"sku":"a","quantity":1,"price":1}]}`, "items[0]"},
		{"quantity 0", `{"customerId":"c","amount":"1","items":[{"sku":"a","quantity":0}]}`, "items[0].quantity"},
		{"quantity is negative", `{"customerId":"c","amount":"1","items":[{"sku":"a","quantity":-1}]}`, "items[0].quantity"},
		{"quantity is huge", `{"customerId":"c","amount":"1","items":[{"sku":"a","quantity":10001}]}`, "items[0].quantity"},
		{"quantity overflows", `{"customerId":"c","amount":"1","items":[{"sku":"a","quantity":99999999999999999999}]}`, "items[0]"},
		{"quantity is half a piece", `{"customerId":"c","amount":"1","items":[{"sku":"a","quantity":0.5}]}`, "items[0]"},
		{"sku is empty", `{"customerId":"c","amount":"1","items":[{"sku":"","quantity":1}]}`, "items[0].sku"},
		{"sku twice", `{"customerId":"c","amount":"1","items":[{"sku":"a","quantity":1},{"sku":"a","quantity":1}]}`, "items[1].sku"},
		{"sku in capitals", `{"customerId":"c","amount":"1","items":[{"SKU":"a","quantity":1}]}`, "items[0]"},
		{"quantity in capitals beside itself", `{"customerId":"c","amount":"1","items":[{"sku":"a","quantity":1,"Quantity":2}]}`, "items[0]"},
		{"item is null", `{"customerId":"c","amount":"1","items":[null]}`, "items[0].sku"},
		{"pay is a number", `{"customerId":"c","amount":"1","items":` + item + `,"pay":1}`, "pay"},
		{"pay is null", `{"customerId":"c","amount":"1","items":` + item + `,"pay":null}`, "pay"},
		{"pay is empty", `{"customerId":"c","amount":"1","items":` + item + `,"pay":""}`, "pay"},
		{"pay is neither", `{"customerId":"c","amount":"1","items":` + item + `,"pay":"Now"}`, "pay"},
		{"a field that is not known", `{"customerId":"c","amount":"1","items":` + item + `,"coupon":"x"}`, "body"},
	} {
		_, wrong, err := decodeOrder(strings.NewReader(c.body))
		if err != nil || len(wrong) == 0 || wrong[0].Field != c.field {
			t.Errorf("%s: got %v, %v; want field %s", c.name, wrong, err, c.field)
		}
	}
	for _, body := range []string{"", "{", "[]", "null x", `"x"`, `{"a":1} {"b":2}`, "\xff", "<xml/>",
		`{"amount":1,"amount":2}`, `{"amount":1,"\u0061mount":2}`, `{"items":[{"sku":"a","sku":"b"}]}`, `{"x":{"y":[0,{"z":1,"z":1}]}}`, `{"x":{},"x":{}}`,
		strings.Repeat(`{"a":`, 20_000)} {
		if _, _, err := decodeOrder(strings.NewReader(body)); !errors.Is(err, errMalformed) {
			t.Errorf("%q: got %v, want a malformed body", body, err)
		}
	}
}

func TestTwoBodiesThatMeanTheSameHaveOneHash(t *testing.T) {
	hash := func(body string) [32]byte {
		r, wrong, err := decodeOrder(strings.NewReader(body))
		if err != nil || len(wrong) > 0 {
			t.Fatal(err, wrong)
		}
		return r.hash()
	}
	a := hash(`{"customerId":"c","amount":11.7,"items":[{"sku":"a","quantity":1}]}`)
	for _, same := range []string{`"pay":"now",`, ``} {
		if a != hash(`{`+same+`"customerId":"c","amount":11.7,"items":[{"sku":"a","quantity":1}]}`) {
			t.Errorf("%q changes the hash", same)
		}
	}
	if (OrderRequest{CustomerID: "c"}).hash() != (OrderRequest{CustomerID: "c", Pay: PayNow}).hash() {
		t.Error("to pay now and not to say when differ")
	}
	if a != hash(`{"items":[{"quantity":1,"sku":"a"}],  "amount":"11.70","customerId":"c"}`) {
		t.Error("the same order written otherwise has another hash")
	}
	for _, other := range []string{
		`{"pay":"later","customerId":"c","amount":11.7,"items":[{"sku":"a","quantity":1}]}`,
		`{"customerId":"d","amount":11.7,"items":[{"sku":"a","quantity":1}]}`,
		`{"customerId":"c","amount":11.71,"items":[{"sku":"a","quantity":1}]}`,
		`{"customerId":"c","amount":11.7,"items":[{"sku":"a","quantity":2}]}`,
		`{"customerId":"c","amount":11.7,"items":[{"sku":"b","quantity":1}]}`,
	} {
		if hash(other) == a {
			t.Errorf("%s has the hash of another order", other)
		}
	}
}
