// Measures the Go client: main TARGET SERVICES CHANGES ROUND_TRIPS. Prints the figures as JSON.
// bench_client.py is the same for Python.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"strconv"
	"time"

	svcmap "github.com/you/svcmap/api/clients/go"
	"github.com/you/svcmap/api/clients/go/svcmapv1"
	"google.golang.org/protobuf/proto"
)

const endpoints = 10

func metadata(service int, suffix string) *svcmapv1.ObjectMeta {
	return &svcmapv1.ObjectMeta{Namespace: "bench", Name: fmt.Sprintf("service-%d%s", service, suffix),
		Labels: map[string]string{"kubernetes.io/service-name": fmt.Sprintf("service-%d", service)}}
}

func service(i int) svcmap.Object {
	return &svcmapv1.Service{Metadata: metadata(i, ""), Spec: &svcmapv1.ServiceSpec{
		ClusterIp: fmt.Sprintf("10.96.%d.%d", i/250, i%250+1),
		Ports:     []*svcmapv1.ServicePort{{Name: "http", Port: 80}}}}
}

// slice returns the endpoints of a Service. Each version replaces one endpoint of the previous version.
func slice(i, version int) svcmap.Object {
	s := &svcmapv1.EndpointSlice{Metadata: metadata(i, "-1"), AddressType: "IPv4",
		Ports: []*svcmapv1.EndpointPort{{Name: proto.String("http"), Port: proto.Int32(8080)}}}
	for e := version; e < version+endpoints; e++ {
		s.Endpoints = append(s.Endpoints, &svcmapv1.Endpoint{
			Addresses:  []string{fmt.Sprintf("10.%d.%d.%d", 128+e%100, i/250, i%250+1)},
			NodeName:   proto.String("n2"),
			Conditions: &svcmapv1.EndpointConditions{Ready: proto.Bool(true)}})
	}
	return s
}

func number(i int) int {
	n, err := strconv.Atoi(os.Args[i])
	check(err)
	return n
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	services, changes, roundTrips := number(2), number(3), number(4)
	agent, err := svcmap.Dial(os.Args[1], svcmap.Controller{Name: "bench",
		StateFile: os.Getenv("STATE_FILE"),
		OnResult:  func(r *svcmap.Result) { panic(r.GetMessage()) },
		OnError:   func(err error) { panic(err) }})
	check(err)
	var objects []svcmap.Object
	for i := 0; i < services; i++ {
		objects = append(objects, service(i), slice(i, 0))
	}
	background := context.Background()
	start := time.Now()
	agent.Set(objects)
	check(agent.Wait(background))
	snapshot := time.Since(start)

	start = time.Now()
	for i := 0; i < changes; i++ {
		agent.Apply(slice(i%services, 1+i/services))
	}
	check(agent.Wait(background))
	stream := time.Since(start)

	times := make([]time.Duration, roundTrips)
	for i := range times {
		object := slice(i%services, 50+i/services)
		start = time.Now()
		agent.Apply(object)
		check(agent.Wait(background))
		times[i] = time.Since(start)
	}
	sort.Slice(times, func(i, j int) bool { return times[i] < times[j] })
	status := agent.Status()
	check(agent.Close())
	check(json.NewEncoder(os.Stdout).Encode(map[string]any{
		"snapshot_s": snapshot.Seconds(), "changes_per_s": float64(changes) / stream.Seconds(),
		"p50_ms": times[roundTrips/2].Seconds() * 1e3, "p99_ms": times[roundTrips*99/100].Seconds() * 1e3,
		"batches": status.Batches}))
}
