package svcmap

import (
	"context"
	"net"
	"path/filepath"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/you/svcmap/api/clients/go/svcmapv1"
	"google.golang.org/grpc"
)

// fakeAgent requests a snapshot on each stream. The tests of all clients use tests/clients/fake_agent.py,
// which checks more.
type fakeAgent struct {
	svcmapv1.UnimplementedControlServer

	mu          sync.Mutex // Guards the fields below.
	silentOpens int        // Number of streams on which Open is not answered.
	silentAcks  int        // Number of messages that are not acknowledged.
	refused     int        // Number of batches whose first object is rejected.
	batches     int
}

func (f *fakeAgent) take(count *int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if *count == 0 {
		return false
	}
	*count--
	return true
}

func (f *fakeAgent) Push(stream svcmapv1.Control_PushServer) error {
	if _, err := stream.Recv(); err != nil {
		return err
	}
	if f.take(&f.silentOpens) {
		<-stream.Context().Done()
		return nil
	}
	if err := stream.Send(&svcmapv1.PushResponse{Message: &svcmapv1.PushResponse_Opened{
		Opened: &svcmapv1.Opened{Resume: svcmapv1.Resume_SEND_SNAPSHOT, Limits: &svcmapv1.Limits{
			MaxBatchBytes: 1 << 20, MaxBatchesInFlight: 64, MaxBytesInFlight: 1 << 26}}}}); err != nil {
		return err
	}
	for {
		request, err := stream.Recv()
		if err != nil {
			return err
		}
		if request.GetSnapshotBegin() != nil || f.take(&f.silentAcks) {
			continue
		}
		ack := &svcmapv1.Ack{Number: request.GetSnapshotEnd().GetNumber(), Outcome: svcmapv1.Outcome_COMMITTED}
		if batch := request.GetBatch(); batch != nil {
			f.mu.Lock()
			f.batches++
			f.mu.Unlock()
			ack.Number = batch.GetNumber()
			if f.take(&f.refused) {
				k := keyOf(batch.GetChanges()[0].GetService())
				ack.Results = append(ack.Results, k.result("refused"))
			}
		}
		if err := stream.Send(&svcmapv1.PushResponse{Message: &svcmapv1.PushResponse_Ack{Ack: ack}}); err != nil {
			return err
		}
	}
}

// start returns an Agent that is connected to the fake agent, and a function that returns its errors.
func start(t *testing.T, fake *fakeAgent) (*Agent, func() []string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "agent.sock")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	svcmapv1.RegisterControlServer(server, fake)
	go server.Serve(listener)
	t.Cleanup(server.Stop)
	var mu sync.Mutex
	var errors []string
	agent, err := Dial("unix://"+path, Controller{Name: "test", OnError: func(err error) {
		mu.Lock()
		defer mu.Unlock()
		errors = append(errors, err.Error())
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { agent.Close() })
	return agent, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return append([]string(nil), errors...)
	}
}

// shorten sets a timer until the end of the test, after the Agent has stopped.
func shorten(t *testing.T, timer *time.Duration) {
	previous := *timer
	*timer = 200 * time.Millisecond
	t.Cleanup(func() { *timer = previous })
}

func synced(t *testing.T, agent *Agent) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := agent.Wait(ctx); err != nil {
		t.Fatal(err)
	}
}

func named(name string) Object {
	return &svcmapv1.Service{Metadata: &svcmapv1.ObjectMeta{Namespace: "shop", Name: name}}
}

func TestReconnectsWithoutAResponseToOpen(t *testing.T) {
	shorten(t, &openedTimeout)
	agent, errors := start(t, &fakeAgent{silentOpens: 1})
	agent.Set(nil)
	synced(t, agent)
	if want := []string{"svcmap: timeout: no response to Open"}; !reflect.DeepEqual(errors(), want) {
		t.Errorf("errors: got %q, want %q", errors(), want)
	}
}

func TestReconnectsWithoutAnAck(t *testing.T) {
	shorten(t, &ackTimeout)
	agent, errors := start(t, &fakeAgent{silentAcks: 2})
	agent.Set([]Object{named("web")})
	synced(t, agent)
	if want := []string{"svcmap: timeout: no Ack"}; !reflect.DeepEqual(errors(), want) {
		t.Errorf("errors: got %q, want %q", errors(), want)
	}
}

func TestSendsRejectedObjectsAgain(t *testing.T) {
	shorten(t, &retryRejected)
	fake := &fakeAgent{refused: 3}
	agent, _ := start(t, fake)
	agent.Set([]Object{named("web")})
	synced(t, agent)
	if rejected := agent.Status().Rejected; rejected != 1 {
		t.Errorf("rejected: got %d, want 1", rejected)
	}
	deadline := time.Now().Add(30 * time.Second)
	for agent.Status().Rejected > 0 {
		if time.Now().After(deadline) {
			t.Fatal("the object is still rejected")
		}
		time.Sleep(time.Millisecond)
	}
	synced(t, agent)
	fake.mu.Lock()
	defer fake.mu.Unlock()
	if fake.batches != 4 {
		t.Errorf("batches: got %d, want 4", fake.batches)
	}
}
