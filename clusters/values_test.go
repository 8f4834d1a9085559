package clusters

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
)

func inProtobuf(t *testing.T, obj runtime.Object) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := protobuf.NewSerializer(clientgoscheme.Scheme, clientgoscheme.Scheme).Encode(obj, &out); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func inJSON(t *testing.T, obj runtime.Object) []byte {
	t.Helper()
	out, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// hollow is a Job of many empty containers.
func hollow(containers int) *batchv1.Job {
	job := &batchv1.Job{}
	job.APIVersion, job.Kind = "batch/v1", "Job"
	job.Spec.Template.Spec.Containers = make([]corev1.Container, containers)
	return job
}

func TestValuesOfHollowObjectsAreCounted(t *testing.T) {
	const many = 10_000
	if n := countProtobuf(inProtobuf(t, hollow(many)), 1<<30); n < many {
		t.Errorf("protobuf: %d of %d", n, many)
	}
	if n := countJSON(inJSON(t, hollow(many))); n < many {
		t.Errorf("JSON: %d of %d", n, many)
	}
	// As tight as it gets: two bytes for each.
	tight := bytes.Repeat([]byte{0x12, 0x00}, many)
	body := append([]byte{0x12, 0xa0, 0x9c, 0x01}, tight...)
	if n := countProtobuf(append(bytes.Clone(protobufMagic), body...), 1<<30); n < many {
		t.Errorf("two bytes each: %d of %d", n, many)
	}
	if n := countProtobuf(body, 100); n > 102 {
		t.Errorf("counted on to %d", n)
	}
}

func TestValuesOfRealObjectsAreFew(t *testing.T) {
	scripts := &corev1.ConfigMap{Data: map[string]string{
		"digits": strings.Repeat("0123456789\n", 100_000), "letters": strings.Repeat("\"quoted\" {[,]}\t", 50_000),
	}}
	scripts.APIVersion, scripts.Kind = "v1", "ConfigMap"
	if n := countProtobuf(inProtobuf(t, scripts), 1<<30); n > 100 {
		t.Errorf("protobuf: text counts as %d values", n)
	}
	if n := countJSON(inJSON(t, scripts)); n > 100 {
		t.Errorf("JSON: text counts as %d values", n)
	}
	pod := &corev1.Pod{}
	pod.APIVersion, pod.Kind = "v1", "Pod"
	for range 10 {
		c := corev1.Container{Name: "app", Image: "example.org/app", Args: []string{"--flag", "value"}}
		for range 10 {
			c.Env = append(c.Env, corev1.EnvVar{Name: "NAME", Value: "value"})
		}
		pod.Spec.Containers = append(pod.Spec.Containers, c)
	}
	if n := countProtobuf(inProtobuf(t, pod), 1<<30); n > 1000 {
		t.Errorf("a large pod counts as %d values", n)
	}
}

func TestScannerFindsDocuments(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		ends int
	}{
		"events":                       {`{"type":"ADDED"}` + "\n" + `{"type":"DELETED"}` + "\n", 2},
		"without lines":                {`{"a":{}}{"b":[]}`, 2},
		"lines within":                 {"{\"a\":\n\n\n{}\n}", 1},
		"brackets in text":             {`{"a":"}}}"}`, 1},
		"a quote that is escaped":      {`{"a":"\"}"}`, 1},
		"a backslash that is escaped":  {`{"a":"\\"}`, 1},
		"never ends":                   {`{"a":{"a":{"a":{`, 0},
		"text that never ends":         {`{"a":"}}}}`, 0},
		"white space alone":            {"\n\n  \n", 0},
		"what is no document any more": {`}`, 1},
	} {
		var s scanner
		ends := 0
		for _, c := range []byte(tc.text) {
			if s.step(c) {
				ends++
			}
		}
		if ends != tc.ends {
			t.Errorf("%s: %d documents, want %d", name, ends, tc.ends)
		}
	}
}

func FuzzCountProtobuf(f *testing.F) {
	f.Add([]byte("k8s\x00\x0a\x00"))
	f.Add([]byte{0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01})
	f.Fuzz(func(t *testing.T, b []byte) {
		if n := countProtobuf(b, 1000); n > 1000+2*maxNesting+2 {
			t.Errorf("counted on to %d", n)
		}
	})
}
