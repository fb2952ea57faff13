// Keeps one Service on an agent: controller TARGET NODE-NAME NODE-IP ENDPOINT-IP...
package main

import (
	"context"
	"log"
	"os"

	svcmap "github.com/you/svcmap/api/clients/go"
	v1 "github.com/you/svcmap/api/clients/go/svcmapv1"
	"google.golang.org/protobuf/proto"
)

func main() {
	node := &v1.Node{Metadata: &v1.ObjectMeta{Name: os.Args[2]},
		Status: &v1.NodeStatus{Addresses: []*v1.NodeAddress{{Type: "InternalIP", Address: os.Args[3]}}}}
	service := &v1.Service{Metadata: &v1.ObjectMeta{Namespace: "shop", Name: "web"},
		Spec: &v1.ServiceSpec{ClusterIp: "10.96.0.10", Ports: []*v1.ServicePort{{Name: "http", Port: 80}}}}
	slice := &v1.EndpointSlice{AddressType: "IPv4",
		Metadata: &v1.ObjectMeta{Namespace: "shop", Name: "web-1", Labels: map[string]string{"kubernetes.io/service-name": "web"}},
		Ports:    []*v1.EndpointPort{{Name: proto.String("http"), Port: proto.Int32(8080)}}}
	for _, address := range os.Args[4:] {
		slice.Endpoints = append(slice.Endpoints, &v1.Endpoint{Addresses: []string{address}})
	}
	agent, err := svcmap.Dial(os.Args[1], svcmap.Controller{Name: "example",
		OnResult: func(r *svcmap.Result) { log.Print(r.GetMessage()) }, OnError: func(err error) { log.Print(err) }})
	if err != nil {
		log.Fatal(err)
	}
	agent.Set([]svcmap.Object{node, service, slice})
	if err := agent.Wait(context.Background()); err != nil {
		log.Fatal(err)
	}
	log.Printf("node %s is at revision %d", agent.Status().NodeName, agent.Status().Revision)
	agent.Close()
}
