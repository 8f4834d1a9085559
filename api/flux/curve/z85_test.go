package curve

import (
	"encoding/hex"
	"testing"
)

// The first case and the keys are the test cases of ZeroMQ RFC 32.
func TestZ85(t *testing.T) {
	tests := map[string]struct{ hex, text string }{
		"empty":         {"", ""},
		"hello":         {"864fd26fb559f75b", "HelloWorld"},
		"client public": {"bb88471d65e2659b30c55a5321cebb5aab2b70a398645c26dca2b2fcb43fc518", "Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID"},
		"client secret": {"7bb864b489afa3671fbe69101f94b38972f24816dfb01b51656b3fec8dfd0888", "D:)Q[IlAW!ahhC2ac:9*A}h:p?([4%wOTJ%JR%cs"},
		"server public": {"54fcba24e93249969316fb617c872bb0c1d1ff14800427c594cbfacf1bc2d652", "rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7"},
		"server secret": {"8e0bdd697628b91d8f245587ee95c5b04d48963f79259877b49cd9063aead3b7", "JTKVSB%%)wK0E.X)V>+}o?pNmC{O&4W4b!Ni{Lh6"},
		"highest":       {"ffffffff", "%nSc0"},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			data, err := hex.DecodeString(test.hex)
			if err != nil {
				t.Fatal(err)
			}
			text, err := z85Encode(data)
			if err != nil || text != test.text {
				t.Errorf("z85Encode = %q, %v; want %q", text, err, test.text)
			}
			back, err := z85Decode(test.text)
			if err != nil || hex.EncodeToString(back) != test.hex {
				t.Errorf("z85Decode = %x, %v; want %s", back, err, test.hex)
			}
		})
	}
}

func TestZ85Errors(t *testing.T) {
	for title, text := range map[string]string{
		"length": "Hell", "alphabet": "Hello~~~~~", "above 32 bits": "%nSc1", "not ASCII": "Hell\xff",
	} {
		t.Run(title, func(t *testing.T) {
			if data, err := z85Decode(text); err == nil {
				t.Errorf("z85Decode(%q) = %x, want an error", text, data)
			}
		})
	}
	if _, err := z85Encode([]byte{1, 2, 3}); err == nil {
		t.Error("z85Encode of 3 bytes gave no error")
	}
}
