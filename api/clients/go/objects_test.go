package svcmap

import (
	"crypto/tls"
	"fmt"
	"strings"
	"testing"

	"github.com/you/svcmap/api/clients/go/svcmapv1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// encoded has the method of Kubernetes objects.
type encoded []byte

func (e encoded) Marshal() ([]byte, error) { return e, nil }

func TestFromKubernetesDropsUnknownFields(t *testing.T) {
	want := &svcmapv1.Service{
		Metadata: &svcmapv1.ObjectMeta{Namespace: "shop", Name: "web"},
		Spec:     &svcmapv1.ServiceSpec{ClusterIp: "10.96.0.10"}}
	known, err := proto.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	unknown := protowire.AppendString(protowire.AppendTag(nil, 999, protowire.BytesType), "resourceVersion")
	var got svcmapv1.Service
	if err := FromKubernetes(encoded(append(known, unknown...)), &got); err != nil {
		t.Fatal(err)
	}
	if !proto.Equal(&got, want) {
		t.Errorf("got %v, want %v", &got, want)
	}
}

func TestFromKubernetesReturnsErrors(t *testing.T) {
	if err := FromKubernetes(encoded{0xff}, &svcmapv1.Service{}); err == nil {
		t.Error("got no error for an incomplete message")
	}
}

func TestNilObjectsAreErrors(t *testing.T) {
	agent, err := Dial("unix:///unused", Controller{Name: "test"})
	if err != nil {
		t.Fatal(err)
	}
	defer agent.Close()
	store, err := NewStore([]string{"unix:///unused"}, "/svcmap/v1/test", StoreOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	for _, missing := range []Object{nil, (*svcmapv1.Service)(nil)} {
		objects := []Object{&svcmapv1.Service{Metadata: &svcmapv1.ObjectMeta{Namespace: "shop", Name: "web"}}, missing}
		for name, err := range map[string]error{
			"Set": agent.Set(objects), "Apply": agent.Apply(objects...), "Remove": agent.Remove(objects...),
			"Store.Set": store.Set(objects), "Store.Update": store.Update(objects, nil),
			"Store.Update with deleted": store.Update(nil, objects)} {
			if err == nil || !strings.Contains(err.Error(), "objects[1] is nil") {
				t.Errorf("%s: got %v, want an error that names objects[1]", name, err)
			}
		}
	}
}

func TestDialWithoutTransportCredentialsIsAnError(t *testing.T) {
	target := "tcp://127.0.0.1:1"
	_, err := Dial(target, Controller{Name: "test"})
	if err == nil || !strings.Contains(err.Error(), target) ||
		!strings.Contains(err.Error(), "needs grpc.WithTransportCredentials(...)") {
		t.Errorf("got %v, want an error that names the target and the option", err)
	}
	for _, option := range []grpc.DialOption{grpc.WithInsecure(),
		grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{}))} {
		agent, err := Dial(target, Controller{Name: "test"}, option, grpc.WithBlock())
		if err != nil {
			t.Fatal(err)
		}
		agent.Close()
	}
}

func TestParseList(t *testing.T) {
	objects, err := ParseList([]byte(`{"kind": "ServiceList", "items": [
		{"metadata": {"namespace": "shop", "name": "web", "resourceVersion": "7"},
		 "spec": {"clusterIP": "10.96.0.10", "ports": [{"port": 80, "targetPort": "http"}]}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	want := &svcmapv1.Service{
		Metadata: &svcmapv1.ObjectMeta{Namespace: "shop", Name: "web"},
		Spec:     &svcmapv1.ServiceSpec{ClusterIp: "10.96.0.10", Ports: []*svcmapv1.ServicePort{{Port: 80}}}}
	if len(objects) != 1 || !proto.Equal(objects[0], want) {
		t.Errorf("got %v, want %v", objects, want)
	}
	for _, text := range []string{"", "[]", "{}", `{"kind": "Pod"}`, `{"kind": "List", "items": [{"kind": "Pod"}]}`,
		`{"kind": "Service", "metadata": {"name": 5}}`} {
		if _, err := ParseList([]byte(text)); err == nil {
			t.Errorf("%q: got no error", text)
		}
	}
}

func TestParseListRejectsUnknownFields(t *testing.T) {
	const service = `{"kind": "Service", "metadata": {"namespace": "shop", "name": "web"%s}, "spec": {%s}}`
	for field, path := range map[string]string{
		`"clusterIp": "10.96.0.10"`:           "spec.clusterIp",
		`"ports": [{"port": 1}, {"prot": 2}]`: "spec.ports[1].prot",
	} {
		object := fmt.Sprintf(service, "", field)
		_, err := ParseList([]byte(`{"kind": "List", "items": [` + object + `]}`))
		if want := "svcmap: items[0]: Service shop/web: " + path + ": unknown field"; err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
		// The API server has checked the object.
		if _, err := ParseList([]byte(fmt.Sprintf(service, `, "uid": "7"`, field))); err != nil {
			t.Error(err)
		}
	}
	_, err := ParseList([]byte(`{"kind": "List", "itmes": []}`))
	if want := "svcmap: List: itmes: unknown field"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
