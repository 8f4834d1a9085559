package curve

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
)

// The client's keys of ZeroMQ RFC 32.
const (
	clientSecretHex = "7bb864b489afa3671fbe69101f94b38972f24816dfb01b51656b3fec8dfd0888"
	clientPublic    = "Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID"
	clientSecret    = "D:)Q[IlAW!ahhC2ac:9*A}h:p?([4%wOTJ%JR%cs"
	serverPublic    = "rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7"
)

func client(t *testing.T) Cert {
	t.Helper()
	random, err := hex.DecodeString(clientSecretHex)
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(bytes.NewReader(random))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestEncode(t *testing.T) {
	c := client(t)
	c.Name = "lammps_\"x"
	want := `#  ZeroMQ CURVE **Secret** Certificate
#  DO NOT DISTRIBUTE

metadata
    name = "lammps--x"
curve
    public-key = "` + clientPublic + `"
    secret-key = "` + clientSecret + `"
`
	if got := string(c.Encode()); got != want {
		t.Errorf("Encode:\n%s\nwant:\n%s", got, want)
	}
}

func TestParse(t *testing.T) {
	c := client(t)
	c.Name = "lammps"
	back, err := Parse(c.Encode())
	if err != nil || back != c {
		t.Errorf("Parse(Encode()) = %v, %v; want %v", back, err, c)
	}
	// As `flux keygen` writes it: more metadata.
	back, err = Parse([]byte("metadata\n    name = \"n\"\n    keygen.hostname = \"h\"\ncurve\n\tpublic-key = \"" +
		clientPublic + "\"\n\tsecret-key = \"" + clientSecret + "\"\n"))
	if err != nil || back.PublicKey() != clientPublic || back.Name != "n" {
		t.Errorf("Parse = %v, %v", back, err)
	}
}

func TestParseErrors(t *testing.T) {
	public, secret := "    public-key = \""+clientPublic+"\"\n", "    secret-key = \""+clientSecret+"\"\n"
	tests := map[string]string{
		"empty":           "",
		"no section":      public,
		"unknown section": "other\n" + public + secret,
		"no secret":       "curve\n" + public,
		"no public":       "curve\n" + secret,
		"not a pair":      "curve\n    public-key = \"" + serverPublic + "\"\n" + secret,
		"short":           "curve\n" + public + "    secret-key = \"" + clientSecret[:35] + "\"\n",
		"bad digit":       "curve\n" + public + "    secret-key = \"~" + clientSecret[1:] + "\"\n",
		"no quotes":       "curve\n" + public + "    secret-key = " + clientSecret + "\n",
		"unknown key":     "curve\n" + public + secret + "    more = \"a\"\n",
	}
	for title, file := range tests {
		t.Run(title, func(t *testing.T) {
			_, err := Parse([]byte(file))
			if err == nil {
				t.Fatal("Parse gave no error")
			}
			if strings.Contains(err.Error(), clientSecret[5:30]) {
				t.Errorf("the error shows the secret key: %v", err)
			}
		})
	}
}

func TestSecretIsNotPrinted(t *testing.T) {
	c := client(t)
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		if text := fmt.Sprintf(format, c); strings.Contains(text, clientSecret) || !strings.Contains(text, clientPublic) {
			t.Errorf("%s prints %s", format, text)
		}
	}
}

func TestNewNeedsRandomness(t *testing.T) {
	if _, err := New(strings.NewReader("short")); err == nil {
		t.Error("New made a key of 5 bytes")
	}
}
