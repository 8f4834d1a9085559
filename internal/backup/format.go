// Package backup is the file that `minifleet backup` makes and `minifleet restore` reads: a stream of YAML documents
// that people can read, with a header first and a checksum last. Objects of the hub come in and go out; what of them is
// kept, and what is put back, is decided here. It knows no client.
//
//	format.go    the stream
//	object.go    what is kept of an object, and what is put back
//	identity.go  the identity of the fleet, and its next epoch
package backup

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"unicode/utf16"

	yamlv3 "go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"
)

const (
	// APIVersion is that of the first and the last document of a file. No API server has it, so that `kubectl apply`
	// refuses the file.
	APIVersion = "backup.minifleet.dev/v1"
	// Format is the one that is made, and the latest that can be read.
	Format = 1

	kindHeader = "Header"
	kindEnd    = "End"

	// maxDocument bounds a document, in bytes: etcd takes no object of more than 1.5 MiB, and YAML indents it.
	maxDocument = 16 << 20
)

var separator = []byte("---\n")

// Header is the first document of a file.
type Header struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Format is that of the whole file, from 1.
	Format int `json:"format"`
	// Created is when the backup was made, RFC 3339.
	Created string `json:"created"`
	// Program is the version of the program that has made it.
	Program string `json:"program"`
	// FleetID, Epoch and HubUID are the identity of the fleet, and the UID of namespace kube-system of its hub.
	FleetID string `json:"fleetID"`
	Epoch   int64  `json:"epoch"`
	HubUID  string `json:"hubUID"`
	// ManagerNamespace is that of the hub's controller.
	ManagerNamespace string `json:"managerNamespace"`
	// Secrets says whether Secrets are in the file.
	Secrets bool `json:"secrets"`
	// KeepSeparately are the Secrets that are not in it and are needed to restore: Secret NAMESPACE/NAME: what for.
	KeepSeparately []string `json:"keepSeparately,omitempty"`
	// Lists are what was read, in the order of the file.
	Lists []List `json:"lists"`
}

// List is what was read of a kind.
type List struct {
	Kind string `json:"kind"`
	// Objects is how many of them are in the file.
	Objects int `json:"objects"`
	// ResourceVersion is that of the hub when its first page was read.
	ResourceVersion string `json:"resourceVersion,omitempty"`
}

type end struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Objects    int    `json:"objects"`
	// SHA256 is of all that is before this document, its separator included, in hexadecimal digits.
	SHA256 string `json:"sha256"`
}

// Writer writes a file.
type Writer struct {
	out     io.Writer
	sum     hash.Hash
	objects int
}

// NewWriter begins a file with its header, the constant fields of which are filled in.
func NewWriter(out io.Writer, h Header) (*Writer, error) {
	h.APIVersion, h.Kind, h.Format = APIVersion, kindHeader, Format
	w := &Writer{sum: sha256.New()}
	w.out = io.MultiWriter(out, w.sum)
	note := "# A backup of a MiniFleet fleet, for `minifleet restore -f FILE`; docs/recovery.md says how. It is not for kubectl apply.\n"
	if _, err := io.WriteString(w.out, note); err != nil {
		return nil, err
	}
	return w, write(w.out, h)
}

// Add writes an object.
func (w *Writer) Add(obj *unstructured.Unstructured) error {
	if err := WriteObject(w.out, obj); err != nil {
		return err
	}
	w.objects++
	return nil
}

// Copy writes so many objects that WriteObject has put somewhere else.
func (w *Writer) Copy(from io.Reader, objects int) error {
	if _, err := io.Copy(w.out, from); err != nil {
		return err
	}
	w.objects += objects
	return nil
}

// Close ends the file. It does not close what is written to.
func (w *Writer) Close() error {
	if _, err := w.out.Write(separator); err != nil {
		return err
	}
	return write(w.out, end{APIVersion: APIVersion, Kind: kindEnd, Objects: w.objects, SHA256: hex.EncodeToString(w.sum.Sum(nil))})
}

// WriteObject writes an object as a document of a file. What is written is read again first: a backup that says something
// else than the hub is worse than none. What YAML does not take as it is becomes a line of JSON, which is YAML too.
func WriteObject(out io.Writer, obj *unstructured.Unstructured) error {
	body, err := encode(obj.Object)
	if err != nil {
		return fmt.Errorf("%s %s/%s: %w", obj.GetKind(), obj.GetNamespace(), obj.GetName(), err)
	}
	if _, err := out.Write(separator); err != nil {
		return err
	}
	_, err = out.Write(body)
	return err
}

func encode(fields map[string]any) ([]byte, error) {
	var b bytes.Buffer
	encoder := yamlv3.NewEncoder(&b)
	encoder.SetIndent(2)
	if err := errors.Join(encoder.Encode(fields), encoder.Close()); err == nil && same(b.Bytes(), fields) {
		return b.Bytes(), nil
	}
	body, err := json.Marshal(fields)
	if err != nil {
		return nil, err
	}
	if body = append(escaped(body), '\n'); !same(body, fields) {
		return nil, errors.New("it cannot be written so that it is read as it is")
	}
	return body, nil
}

// escaped has no character in it that is not printable ASCII.
func escaped(body []byte) []byte {
	var b bytes.Buffer
	for _, r := range string(body) {
		if r < 0x7f {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	return b.Bytes()
}

func same(body []byte, fields map[string]any) bool {
	got, err := decode(body)
	return err == nil && !bytes.Contains(body, []byte("\n---\n")) && equality.Semantic.DeepEqual(got, fields)
}

// decode reads a document, with numbers as the API machinery has them: whole ones are int64.
func decode(body []byte) (map[string]any, error) {
	var fields map[string]any
	if err := yamlv3.Unmarshal(body, &fields); err != nil {
		return nil, err
	}
	text, err := json.Marshal(fields)
	if err != nil {
		return nil, err
	}
	var out map[string]any
	err = utiljson.Unmarshal(text, &out)
	return out, err
}

func write(out io.Writer, document any) error {
	body, err := yaml.Marshal(document)
	if err != nil {
		return err
	}
	_, err = out.Write(body)
	return err
}

// ErrUnknown says that a file is no backup, or one of a format that is not known here.
var ErrUnknown = errors.New("the file cannot be restored")

// ErrDamaged says that a file is not what was made as a backup, or not all of it.
var ErrDamaged = errors.New("the file is damaged, or not all of a backup")

// Read reads a file to its end and calls with each object, in order. Nothing may be done with these before Read has
// returned without an error: only its end says that the file is whole. The checksum identifies the file.
func Read(in io.Reader, each func(*unstructured.Unstructured) error) (header Header, checksum string, err error) {
	docs := &documents{in: bufio.NewReaderSize(in, 1<<16), sum: sha256.New()}
	first, err := docs.next()
	if err != nil {
		return header, "", unreadable(err)
	}
	if header, err = parseHeader(first); err != nil {
		return header, "", err
	}
	for objects := 0; ; objects++ {
		before := hex.EncodeToString(docs.sum.Sum(nil))
		body, err := docs.next()
		if err != nil {
			return header, "", unreadable(err)
		}
		fields, err := decode(body)
		if err != nil {
			return header, "", fmt.Errorf("%w: document %d: %w", ErrDamaged, objects+2, err)
		}
		obj := &unstructured.Unstructured{Object: fields}
		if obj.GetAPIVersion() == APIVersion {
			return header, before, docs.finish(body, before, objects)
		}
		if obj.GetKind() == "" || obj.GetName() == "" {
			return header, "", fmt.Errorf("%w: document %d has no kind or no name", ErrDamaged, objects+2)
		}
		if err := each(obj); err != nil {
			return header, "", err
		}
	}
}

func unreadable(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: it ends before its last document", ErrDamaged)
	}
	return err
}

func parseHeader(body []byte) (Header, error) {
	var h Header
	if err := yaml.Unmarshal(body, &h); err != nil || h.Kind != kindHeader || h.Format < 1 {
		return h, fmt.Errorf("%w: it is no backup, for it does not begin with the header that `minifleet backup` writes", ErrUnknown)
	}
	if h.Format > Format || h.APIVersion != APIVersion {
		return h, fmt.Errorf("%w: it is of format %d (%s), made by %s, and this program reads formats up to %d: use that version, or a later one", ErrUnknown, h.Format, h.APIVersion, h.Program, Format)
	}
	return h, nil
}

// documents are those of a stream. The sum is of all before the body of the latest one.
type documents struct {
	in  *bufio.Reader
	sum hash.Hash
	// body is the latest document, which is not in the sum yet.
	body  []byte
	atEnd bool
}

// next reads to the next separator, or to the end. A line --- cannot be within a document that was written here, for all
// text of several lines is indented.
func (d *documents) next() ([]byte, error) {
	if d.atEnd {
		return nil, io.EOF
	}
	var body bytes.Buffer
	whole := true // what was read last was the end of a line
	for {
		begins := whole
		line, err := d.in.ReadSlice('\n')
		whole = !errors.Is(err, bufio.ErrBufferFull)
		if body.Len()+len(line) > maxDocument {
			return nil, fmt.Errorf("%w: a document is of more than %d MiB", ErrDamaged, maxDocument>>20)
		}
		if !whole {
			body.Write(line)
			continue
		}
		if errors.Is(err, io.EOF) {
			d.atEnd = true
			body.Write(line)
			break
		}
		if err != nil {
			return nil, err
		}
		if begins && bytes.Equal(line, separator) {
			break
		}
		body.Write(line)
	}
	d.body = body.Bytes()
	_, _ = d.sum.Write(d.body) // a hash returns no error
	if !d.atEnd {
		_, _ = d.sum.Write(separator)
	}
	return d.body, nil
}

// finish checks the last document.
func (d *documents) finish(body []byte, sum string, objects int) error {
	var e end
	if err := yaml.UnmarshalStrict(body, &e); err != nil || e.Kind != kindEnd || !d.atEnd {
		return fmt.Errorf("%w: its last document is not the one with the checksum", ErrDamaged)
	}
	if e.SHA256 != sum {
		return fmt.Errorf("%w: its checksum is %s, and its last document says %s", ErrDamaged, sum, e.SHA256)
	}
	if e.Objects != objects {
		return fmt.Errorf("%w: it has %d objects, and its last document says %d", ErrDamaged, objects, e.Objects)
	}
	return nil
}
