package svcmap

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/you/svcmap/api/clients/go/svcmapv1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
)

const (
	protocolVersion = 2

	firstRetry   = 200 * time.Millisecond
	lastRetry    = 10 * time.Second
	closeTimeout = 10 * time.Second

	replacedRemedy = "; an agent accepts only one controller at a time: use leader election and epochs if several " +
		"instances run, and give each of them a different instance name"
)

// Variables only for tests.
var (
	openedTimeout = 30 * time.Second
	ackTimeout    = 2 * time.Minute
	retryRejected = 10 * time.Minute
)

// connectTo returns the name of a target in gRPC and its options: a Unix socket without transport
// security, or TCP with the transport credentials of the caller.
func connectTo(target string) (string, []grpc.DialOption, error) {
	network, address := "", ""
	switch {
	case strings.HasPrefix(target, "unix://"):
		network, address = "unix", strings.TrimPrefix(target, "unix://")
	case strings.HasPrefix(target, "tcp://"):
		network, address = "tcp", strings.TrimPrefix(target, "tcp://")
	}
	if address == "" {
		return "", nil, fmt.Errorf("svcmap: target %q: must be unix:///path or tcp://host:port", target)
	}
	options := []grpc.DialOption{
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, address)
		}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(1 << 30)),
	}
	if network == "unix" {
		return "passthrough:///localhost", append(options, grpc.WithInsecure()), nil
	}
	return "passthrough:///" + address, append(options, grpc.WithKeepaliveParams(
		keepalive.ClientParameters{Time: 20 * time.Second, Timeout: 10 * time.Second})), nil
}

// checkOptions returns an error if gRPC rejects the options, for example because no transport credentials are
// set. It opens no connection.
func checkOptions(name string, options []grpc.DialOption) error {
	canceled, cancel := context.WithCancel(context.Background())
	cancel()
	dialer := grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	conn, err := grpc.DialContext(canceled, name, append(append([]grpc.DialOption(nil), options...), dialer)...)
	if err == nil {
		return conn.Close()
	}
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// isFinal returns whether a new stream would end with the same error.
func isFinal(err error) bool {
	switch status.Code(err) {
	case codes.Aborted, codes.FailedPrecondition, codes.InvalidArgument, codes.PermissionDenied,
		codes.Unauthenticated, codes.Unimplemented:
		return true
	}
	return false
}

// handshakeProblem returns the reason if the TLS handshake failed, which gRPC returns inside a longer text.
func handshakeProblem(err error) string {
	parts := strings.SplitN(status.Convert(err).Message(), "authentication handshake failed: ", 2)
	if len(parts) < 2 {
		return ""
	}
	return strings.TrimSuffix(parts[1], `"`)
}

// run opens streams until Close or a final error.
func (a *Agent) run() {
	defer close(a.done)
	retry := firstRetry
	replacedBySelf := false
	for {
		acked, err := a.stream()
		// A delayed Open of a broken connection can replace the next stream of the same controller.
		reason, metadata := ErrorInfo(err)
		bySelf := reason == svcmapv1.ErrorReason_REPLACED && metadata["name"] == a.controller.Name &&
			metadata["instance"] == a.controller.Instance
		final := isFinal(err) && (!bySelf || replacedBySelf)
		if final && reason == svcmapv1.ErrorReason_REPLACED {
			withRemedy := status.Convert(err).Proto()
			withRemedy.Message += replacedRemedy
			err = status.ErrorProto(withRemedy)
		}
		a.mu.Lock()
		a.state.disconnect()
		a.status.Connected = false
		closing := a.closing
		a.broken = err
		if final && !closing {
			a.finalErr = err
		}
		a.mu.Unlock()
		if closing {
			return
		}
		problem := handshakeProblem(err)
		if problem != "" {
			err = status.Error(codes.Unavailable, "TLS handshake failed: "+problem)
			problem = strings.SplitN(problem, ": current time ", 2)[0] // The time differs in each error.
		}
		if problem == "" || problem != a.tlsProblem {
			a.controller.OnError(err)
		}
		a.tlsProblem = problem
		if final {
			return
		}
		replacedBySelf = bySelf
		if acked {
			retry = firstRetry
		}
		if !a.sleep(retry/2 + time.Duration(rand.Int63n(int64(retry/2)))) {
			return
		}
		if retry *= 2; retry > lastRetry {
			retry = lastRetry
		}
	}
}

// sleep returns false if Close was called.
func (a *Agent) sleep(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		a.mu.Lock()
		closing := a.closing
		a.mu.Unlock()
		if closing {
			return false
		}
		select {
		case <-timer.C:
			return true
		case <-a.wake:
		}
	}
}

// stream runs one stream until its end.
func (a *Agent) stream() (acked bool, err error) {
	ctx, cancel := context.WithCancel(a.ctx)
	defer cancel()
	conn, err := grpc.DialContext(ctx, a.target, a.options...)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	push, err := svcmapv1.NewControlClient(conn).Push(ctx)
	if err != nil {
		return false, err
	}

	a.mu.Lock()
	token := a.state.token
	a.mu.Unlock()
	if err := push.Send(&svcmapv1.PushRequest{Message: &svcmapv1.PushRequest_Open{Open: &svcmapv1.Open{
		Name: a.controller.Name, Instance: a.controller.Instance, ProtocolVersion: protocolVersion,
		Epoch: a.controller.Epoch, StateToken: token}}}); err != nil && err != io.EOF {
		return false, err
	}
	watchdog := newWatchdog(cancel)
	defer watchdog.stop()
	watchdog.expect("no response to Open", openedTimeout)
	response, err := push.Recv()
	if err != nil {
		return false, watchdog.reason(err)
	}
	watchdog.expectNothing()
	if response.GetOpened() == nil {
		return false, errors.New("svcmap: the first response is not Opened")
	}

	a.mu.Lock()
	resumed := a.state.opened(response.GetOpened())
	a.status.Connected = true
	a.broken = nil
	a.status.AgentVersion = response.GetOpened().GetAgentVersion()
	a.status.NodeName = response.GetOpened().GetNodeName()
	a.status.Revision = response.GetOpened().GetRevision()
	a.tlsProblem = ""
	if resumed {
		a.status.Resumed++
	}
	for w := range a.waiters {
		w.target = a.state.enqueued // The queue is new.
	}
	a.releaseWaiters()
	a.mu.Unlock()

	sender := make(chan struct{})
	go func() {
		defer close(sender)
		a.send(ctx, push, watchdog)
	}()
	defer func() {
		cancel()
		<-sender
	}()
	a.wakeSender()
	kernelError := ""
	for {
		response, err := push.Recv()
		if err == io.EOF {
			return acked, errors.New("svcmap: svcmapd closed the stream without an error")
		}
		if err != nil {
			return acked, watchdog.reason(err)
		}
		ack := response.GetAck()
		a.mu.Lock()
		saved, err := a.state.ack(ack)
		a.status.Revision = ack.GetRevision()
		if len(a.state.unacked) == 0 {
			watchdog.expectNothing()
		} else {
			watchdog.expect("no Ack", ackTimeout)
		}
		a.mu.Unlock()
		acked = true
		for _, r := range ack.GetResults() {
			a.controller.OnResult(r)
		}
		if saved != nil {
			a.controller.OnError(fmt.Errorf("svcmap: write Controller.StateFile: %w", saved))
		}
		if ack.GetHeld() != "" {
			a.controller.OnError(&SnapshotHeldError{Loss: ack.GetHeld()})
		}
		if ack.GetError() != "" && ack.GetError() != kernelError {
			a.controller.OnError(fmt.Errorf("svcmap: kernel commit failed, svcmapd is retrying: %s", ack.GetError()))
		}
		kernelError = ack.GetError()
		// After the callbacks, so that results precede the end of Wait.
		a.mu.Lock()
		a.releaseWaiters()
		a.mu.Unlock()
		a.wakeSender()
		if err != nil {
			return acked, fmt.Errorf("svcmap: %w", err)
		}
	}
}

// send sends messages until the end of the stream.
func (a *Agent) send(ctx context.Context, push svcmapv1.Control_PushClient, watchdog *watchdog) {
	retry := time.NewTicker(retryRejected)
	defer retry.Stop()
	for {
		a.mu.Lock()
		closing := a.closing
		var request *svcmapv1.PushRequest
		var refused []*svcmapv1.ObjectResult
		if !closing {
			idle := len(a.state.unacked) == 0
			request, refused = a.state.next()
			if idle && len(a.state.unacked) > 0 {
				watchdog.expect("no Ack", ackTimeout)
			}
		}
		a.releaseWaiters()
		a.mu.Unlock()
		for _, r := range refused {
			a.controller.OnResult(r)
		}
		if closing {
			push.CloseSend()
			return
		}
		if request != nil {
			if push.Send(request) != nil {
				return // Recv returns the error.
			}
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-a.wake:
		case <-retry.C:
			a.mu.Lock()
			a.state.retry()
			a.mu.Unlock()
		}
	}
}

// watchdog cancels the stream if an expected response does not arrive.
type watchdog struct {
	cancel context.CancelFunc

	mu       sync.Mutex // Guards the fields below.
	timer    *time.Timer
	deadline time.Time // Zero if no response is expected.
	what     string
	expired  string // What did not arrive.
}

func newWatchdog(cancel context.CancelFunc) *watchdog {
	w := &watchdog{cancel: cancel}
	w.timer = time.AfterFunc(time.Hour, w.check)
	return w
}

func (w *watchdog) expect(what string, timeout time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.deadline.IsZero() {
		w.timer.Reset(timeout)
	}
	w.what, w.deadline = what, time.Now().Add(timeout)
}

func (w *watchdog) expectNothing() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.deadline = time.Time{}
}

func (w *watchdog) check() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.deadline.IsZero() {
		return
	}
	if left := time.Until(w.deadline); left > 0 {
		w.timer.Reset(left)
		return
	}
	w.expired = w.what
	w.cancel()
}

func (w *watchdog) stop() { w.timer.Stop() }

// reason returns the error of a stream: the timeout, or else the error that gRPC returned.
func (w *watchdog) reason(err error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.expired != "" {
		return fmt.Errorf("svcmap: timeout: %s", w.expired)
	}
	return err
}
