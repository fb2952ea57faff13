// Package svcmap keeps svcmapd agents equal to a list of Services, EndpointSlices, Nodes and
// ServiceCIDRs.
//
//	agent, err := svcmap.Dial("unix:///run/svcmap/svcmap.sock", svcmap.Controller{Name: "example"})
//	agent.Set(objects)        // The complete list. Nothing is sent before the first Set.
//	agent.Apply(slice)        // Adds or replaces individual objects.
//	agent.Remove(service)     // Removes objects by kind, namespace and name.
//	err = agent.Wait(ctx)     // Returns when the agent has acknowledged all of the above.
//	err = agent.Close()
//
// An Agent connects, reconnects with backoff, and sends only objects that differ from the objects that
// the agent acknowledged. Changes to an object that is waiting to be sent are merged. With
// Controller.StateFile, a restarted controller also sends only differences.
package svcmap

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
)

// ErrClosed is the error of Set, Apply, Update, Remove and Wait after Close.
var ErrClosed = errors.New("svcmap: closed")

// Controller identifies the controller and configures its connection to one agent.
type Controller struct {
	// Name of the controller program, such as "example". Required, at most 253 bytes.
	Name string

	// Name of this instance. Must be unique among instances that can run at the same time. Default:
	// the host name.
	Instance string

	// Fencing token that increases with each leadership change. 0 disables fencing.
	Epoch uint64

	// File for the state token and the digests of the acknowledged objects. Each agent needs its own
	// file. If the field is empty, a restarted controller sends a snapshot.
	StateFile string

	// OnResult receives rejected objects and warnings. A rejected object is sent again when it
	// changes, when the stream is opened again, or after 10 minutes. Default: the client logs the results
	// with the standard logger of the package log.
	OnResult func(*Result)

	// OnError receives errors that the Agent retries, such as a broken connection, errors of the kernel,
	// which the agent retries, and a *SnapshotHeldError. If the Agent stops because of an error, this error
	// is the last one, and Err already returns it. While TLS handshakes fail for the same reason, it is
	// reported once. Default: the client logs the errors with the standard
	// logger of the package log. Neither callback may call Wait or Close.
	OnError func(error)
}

// Status is a snapshot of an Agent's state. All counters start at 0 in Dial.
type Status struct {
	Connected    bool   // Whether a stream is open.
	AgentVersion string // Version of svcmapd, such as "0.3.0".
	NodeName     string // Node that the agent programs.
	Revision     uint64 // Revision of the agent in the last response.
	Objects      int    // Number of objects that the agent should have.
	Rejected     int    // Number of objects whose last version was rejected.
	Held         string // Loss of a held snapshot, such as "95 of 100 Services". Empty if no snapshot is held.
	Changes      uint64 // Number of changes sent, including snapshots.
	Batches      uint64 // Number of batches sent.
	Snapshots    uint64 // Number of snapshots started.
	Resumed      uint64 // Number of streams that continued without a snapshot.
}

// Agent is the connection to one agent. All methods can be called from any goroutine.
type Agent struct {
	controller Controller
	given      string // Target of Dial.
	target     string // Name in gRPC.
	options    []grpc.DialOption

	mu       sync.Mutex // Guards the fields below.
	state    state
	status   Status
	waiters  map[*waiter]struct{}
	started  bool
	closing  bool
	finalErr error
	broken   error // Error of the last stream, if no stream is open.

	ctx  context.Context // Cancelled to abort the stream.
	stop context.CancelFunc
	wake chan struct{} // The sender has work, or the agent is closing.
	done chan struct{} // Closed after the end of the last stream.

	tlsProblem string // Reason of the last failed TLS handshake. Empty after other errors. Only for run.
}

type waiter struct {
	target uint64
	ready  chan struct{}
}

// Dial returns an Agent for a target such as "unix:///run/svcmap/svcmap.sock" or
// "tcp://node-1.example:7070". TCP targets need transport credentials in the options; otherwise, Dial returns an
// error. Dial does not wait for a connection. The connection is opened after the first Set.
func Dial(target string, controller Controller, options ...grpc.DialOption) (*Agent, error) {
	if controller.Name == "" {
		return nil, errors.New("svcmap: Controller.Name is required")
	}
	if controller.Instance == "" {
		host, err := os.Hostname()
		if err != nil {
			return nil, fmt.Errorf("svcmap: default of Controller.Instance: %w", err)
		}
		controller.Instance = host
	}
	name, transport, err := connectTo(target)
	if err != nil {
		return nil, err
	}
	options = append(transport, options...)
	if strings.HasPrefix(target, "tcp://") {
		if err := checkOptions(name, options); err != nil {
			return nil, fmt.Errorf("svcmap: target %q: %w; a tcp:// target needs grpc.WithTransportCredentials(...) "+
				"in the options of Dial", target, err)
		}
	}
	if controller.OnResult == nil {
		controller.OnResult = func(r *Result) { log.Printf("svcmap: %s: %s", target, r.GetMessage()) }
	}
	if controller.OnError == nil {
		controller.OnError = func(err error) { log.Printf("svcmap: %s: %v", target, err) }
	}
	a := &Agent{
		controller: controller,
		given:      target,
		target:     name,
		options:    options,
		waiters:    map[*waiter]struct{}{},
		wake:       make(chan struct{}, 1),
		done:       make(chan struct{}),
	}
	a.state.init()
	if controller.StateFile != "" {
		if a.state.file, err = openStateFile(controller.StateFile, &a.state); err != nil {
			return nil, err
		}
	}
	a.ctx, a.stop = context.WithCancel(context.Background())
	return a, nil
}

// Set replaces the list of objects that the agent should have. The agent removes all other objects.
// Set serializes the objects, so the caller can modify them afterwards. If the list contains several
// versions of an object, the last version is used, and OnResult receives a warning.
//
// The agent holds the removals if they would remove at least half of at least 20 objects of one kind,
// and OnError receives a *SnapshotHeldError. Fewer objects are not protected: Set(nil) deletes all of them.
//
// If an object is nil, Set, Apply and Remove do nothing and return an error that names its index. If the
// Agent has stopped, they do nothing and return the error of Err, or ErrClosed after Close.
func (a *Agent) Set(objects []Object) error { return a.set(objects, false) }

// SetAndAcceptRemovals is Set, but the agent removes any number of objects. Call it only if an operator has
// confirmed the removals.
func (a *Agent) SetAndAcceptRemovals(objects []Object) error { return a.set(objects, true) }

func (a *Agent) set(objects []Object, acceptRemovals bool) error {
	if err := checkObjects(objects); err != nil {
		return err
	}
	changes := make([]change, 0, len(objects))
	count := map[key]int{}
	for _, object := range objects {
		c := upsert(object)
		changes = append(changes, c)
		if count[c.key]++; count[c.key] == 2 {
			a.controller.OnResult(c.key.repeated())
		}
	}
	return a.update(changes, func() { a.state.set(changes, acceptRemovals) })
}

// Apply adds or replaces objects. See Set for its error.
func (a *Agent) Apply(objects ...Object) error {
	if err := checkObjects(objects); err != nil {
		return err
	}
	changes := make([]change, 0, len(objects))
	for _, object := range objects {
		changes = append(changes, upsert(object))
	}
	return a.update(changes, nil)
}

// Remove removes the objects with these kinds, namespaces and names. Other fields are ignored. The
// removal of an object that does not exist is not an error. See Set for its error.
func (a *Agent) Remove(objects ...Object) error {
	if err := checkObjects(objects); err != nil {
		return err
	}
	changes := make([]change, 0, len(objects))
	for _, object := range objects {
		changes = append(changes, change{key: keyOf(object)})
	}
	return a.update(changes, nil)
}

// update applies the changes. With `set`, they replace the list.
func (a *Agent) update(changes []change, set func()) error {
	a.mu.Lock()
	if a.finalErr != nil || a.closing {
		defer a.mu.Unlock()
		return a.ending()
	}
	if set != nil {
		set()
	} else {
		for _, c := range changes {
			a.state.put(c)
		}
	}
	if set != nil && !a.started {
		a.started = true
		go a.run()
	}
	a.releaseWaiters()
	a.mu.Unlock()
	a.wakeSender()
	for _, c := range changes {
		if c.err != nil {
			a.controller.OnResult(c.key.result("Invalid value: " + c.err.Error()))
		}
	}
	return nil
}

// ending returns the error of calls after the end. Expects a.mu to be locked.
func (a *Agent) ending() error {
	if a.finalErr != nil {
		return a.finalErr
	}
	return ErrClosed
}

// Wait returns nil when the agent has acknowledged all changes of earlier calls of Set, Apply and
// Remove. Rejected objects, held removals and kernel errors do not cause an error; see OnResult, OnError,
// Status.Rejected and Status.Held. If the Agent has stopped, Wait returns the error of Err. Before the first
// Set, Wait returns an error, because the agent acknowledges nothing before it has received a list. If ctx
// ends, the error wraps ctx.Err() and contains the last connection error.
func (a *Agent) Wait(ctx context.Context) error {
	a.mu.Lock()
	if !a.started && !a.closing {
		defer a.mu.Unlock()
		return errors.New("svcmap: wait: no list of objects: call Set first")
	}
	w := &waiter{target: a.state.enqueued, ready: make(chan struct{})}
	a.waiters[w] = struct{}{}
	a.releaseWaiters()
	a.mu.Unlock()
	defer func() {
		a.mu.Lock()
		delete(a.waiters, w)
		a.mu.Unlock()
	}()
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.broken != nil {
			return fmt.Errorf("svcmap: %s: the agent has not acknowledged all changes: %w; last connection error: %v",
				a.given, ctx.Err(), a.broken)
		}
		return fmt.Errorf("svcmap: %s: the agent has not acknowledged all changes: %w", a.given, ctx.Err())
	case <-a.done:
		select {
		case <-w.ready:
			return nil
		default:
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.ending()
	}
}

// Done returns a channel that is closed when the Agent has stopped after Close or after an error that
// reconnecting cannot solve, such as an outdated epoch.
func (a *Agent) Done() <-chan struct{} { return a.done }

// Err returns the gRPC status error that stopped the Agent, or nil. See ErrorInfo.
func (a *Agent) Err() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.finalErr
}

// Status returns the current state.
func (a *Agent) Status() Status {
	a.mu.Lock()
	defer a.mu.Unlock()
	status := a.status
	status.Objects, status.Rejected = a.state.count()
	status.Batches, status.Changes = a.state.batches, a.state.changes
	status.Snapshots, status.Held = a.state.snapshots, a.state.held
	return status
}

// Close half-closes the stream, waits up to 10 s for outstanding Acks, and stops the Agent. Changes that
// were not sent yet are discarded; use Wait to avoid this. The agent keeps all objects. Close returns
// the error of Err.
func (a *Agent) Close() error {
	a.mu.Lock()
	first := !a.closing
	a.closing = true
	if first && !a.started {
		close(a.done)
	} else if !a.status.Connected {
		a.stop()
	}
	a.mu.Unlock()
	a.wakeSender()
	timer := time.AfterFunc(closeTimeout, a.stop)
	defer timer.Stop()
	<-a.done
	a.stop()
	return a.Err()
}

func (a *Agent) wakeSender() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// releaseWaiters expects a.mu to be locked.
func (a *Agent) releaseWaiters() {
	progress := a.state.progress()
	for w := range a.waiters {
		if w.target <= progress {
			close(w.ready)
			delete(a.waiters, w)
		}
	}
}
