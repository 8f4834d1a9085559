package peers

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/minifleet/minifleet/hack/bench/wait"
	"github.com/minifleet/minifleet/hack/lab"
)

// Each directory that an object names has files in the same push, for the member that the object names.
func TestDirectoriesOfPeersAreInGit(t *testing.T) {
	destination := map[string]func(map[string]any) (member, path string){
		kustomization: func(spec map[string]any) (string, string) {
			member, _, _ := unstructured.NestedString(spec, "kubeConfig", "secretRef", "name")
			path, _, _ := unstructured.NestedString(spec, "path")
			return member, strings.TrimPrefix(path, "./")
		},
		application: func(spec map[string]any) (string, string) {
			member, _, _ := unstructured.NestedString(spec, "destination", "name")
			path, _, _ := unstructured.NestedString(spec, "source", "path")
			return strings.TrimPrefix(member, hubName), path
		},
	}
	names := namesOf("m", 4)
	for template, read := range destination {
		for _, each := range []bool{false, true} {
			d := &directories{namespace: "space", url: "http://git.invalid/repo", apply: template, each: each}
			files, objects, err := d.roots()
			if err != nil {
				t.Fatal(err)
			}
			pushed, err := d.files(names)
			if err != nil {
				t.Fatal(err)
			}
			for path, text := range pushed {
				if strings.HasPrefix(path, "fleet/") {
					objects = append(objects, text)
				}
				files[path] = text
			}
			members := map[string]int{}
			for _, text := range objects {
				decoded, err := decode(text, nil)
				if err != nil || len(decoded) != 1 {
					t.Fatalf("%d objects, %v:\n%s", len(decoded), err, text)
				}
				spec, _, _ := unstructured.NestedMap(decoded[0].Object, "spec")
				member, path := read(spec)
				for file, text := range files {
					if strings.HasPrefix(file, path+"/") {
						members[member] += strings.Count(text, "kind: Job\n")
					}
				}
			}
			if diff := cmp.Diff(map[string]int{"alpine": 2, "basalt": 1, "cinder": 1}, without(members, "")); diff != "" {
				t.Errorf("Jobs of each member, each %v (-want +got):\n%s", each, diff)
			}
		}
	}
}

func without(counts map[string]int, key string) map[string]int {
	delete(counts, key)
	return counts
}

func TestClusterSecretHasWhatItTakesToConnect(t *testing.T) {
	config := clientcmdapi.NewConfig()
	config.Clusters["a"] = &clientcmdapi.Cluster{Server: "https://127.0.0.1:1", CertificateAuthorityData: []byte("ca")}
	config.AuthInfos["a"] = &clientcmdapi.AuthInfo{ClientCertificateData: []byte("certificate"), ClientKeyData: []byte("key")}
	config.Contexts["a"] = &clientcmdapi.Context{Cluster: "a", AuthInfo: "a"}
	config.CurrentContext = "a"
	kubeconfig, err := clientcmd.Write(*config)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := clusterSecret("alpine", "space", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	if secret.StringData["name"] != "alpine" || secret.StringData["server"] != "https://127.0.0.1:1" {
		t.Errorf("it is of another cluster: %v", secret.StringData)
	}
	var got map[string]map[string][]byte
	if err := json.Unmarshal([]byte(secret.StringData["config"]), &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]map[string][]byte{"tlsClientConfig": {"caData": []byte("ca"), "certData": []byte("certificate"), "keyData": []byte("key")}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("config (-want +got):\n%s", diff)
	}
}

func TestRedisKeepsWhatIsSet(t *testing.T) {
	address, err := lab.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- ServeRedis(ctx, address) }()
	var connection net.Conn
	err = wait.Until(ctx, time.Minute, "Redis to answer", func(ctx context.Context) (bool, error) {
		var dialer net.Dialer
		connection, err = dialer.DialContext(ctx, "tcp", address)
		return err == nil, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprint(connection, redisCommand("SET", "key", "value", "EX", "60")+redisCommand("GET", "key")); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(connection)
	for _, want := range []string{"+OK", "$5", "value"} {
		if !lines.Scan() || lines.Text() != want {
			t.Errorf("%q instead of %q, %v", lines.Text(), want, lines.Err())
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func redisCommand(words ...string) string {
	text := fmt.Sprintf("*%d\r\n", len(words))
	for _, word := range words {
		text += fmt.Sprintf("$%d\r\n%s\r\n", len(word), word)
	}
	return text
}
