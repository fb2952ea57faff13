package svcmap

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"log"
	"os"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/you/svcmap/api/clients/go/svcmapv1"
	"google.golang.org/protobuf/proto"
)

const (
	pollLeader    = time.Second
	afterError    = 3 * time.Second // Before the next campaign.
	headInterval  = 10 * time.Second
	pageKeys      = 500
	maxOperations = 119     // Objects in a transaction, which also writes the head.
	maxTxnBytes   = 1 << 20 // Values in a transaction. etcd accepts 1.5 MiB.
	maxValueBytes = 1400000
	minHeld       = 20 // Minimum number of objects of a kind of which removals are held.
)

// DeposedError reports that another writer has written to etcd, or that the lease has expired. The Store
// writes nothing until it is elected again. It then reads all keys and writes the differences.
type DeposedError struct {
	Reason string
}

func (e *DeposedError) Error() string { return "svcmap: " + e.Reason }

// RemovalsHeldError reports that a list lacks most objects in etcd, so the Store does not remove them. Call
// Set with the complete list, or SetAndAcceptRemovals.
type RemovalsHeldError struct {
	Loss string // For example "95 of 100 services".
}

func (e *RemovalsHeldError) Error() string {
	return "svcmap: the removals of the list are held, because they would remove " + e.Loss
}

// StoreOptions configures a Store.
type StoreOptions struct {
	// Name of this instance, for people who read PREFIX/leader. Default: the host name.
	Name string

	// TLS is required for https:// endpoints.
	TLS *tls.Config

	// LeaseSeconds is the time after which another Store can be elected if this Store has failed. Default: 15.
	LeaseSeconds int64

	// OnError receives errors that the Store retries, rejected objects, a *DeposedError and a
	// *RemovalsHeldError. Default: the Store logs the errors with the standard logger of the package log.
	// OnError may not call Wait or Close.
	OnError func(error)
}

// StoreStatus is a snapshot of a Store's state. All counters start at 0 with the Store.
type StoreStatus struct {
	Leader       bool   // Whether the Store is the elected writer and has read the keys.
	Seq          uint64 // Sequence number of the last transaction.
	Epoch        uint64 // Epoch of this writer.
	Objects      int    // Number of objects in etcd. 0 if the Store is not the elected writer.
	Held         int    // Number of objects whose removal is held.
	Rejected     int    // Number of objects that cannot be written.
	Transactions uint64 // Number of transactions, including those without objects.
	Written      uint64 // Number of objects that were written or removed.
}

// Store is the writer of the objects below a prefix in etcd, for the nodes of a fleet (docs/fleet.md). All
// methods can be called from any goroutine.
//
// Several Stores can have the same prefix. One of them is elected with a lease and writes. The others keep
// their objects, and write the differences when they are elected.
type Store struct {
	prefix, head, leader string
	options              StoreOptions

	mu             sync.Mutex       // Guards the fields below.
	changed        chan struct{}    // Closed and replaced when a field changes that others wait for.
	desired        map[string]value // By path below the prefix.
	stored         map[string]value // The objects in etcd.
	queued         map[string]bool  // Paths of objects that may differ.
	held           map[string]bool  // Paths of objects that are not removed.
	complete       bool             // Whether Set has been called.
	acceptRemovals bool             // Of the last Set.
	changes        int              // Number of calls of Set and Update.
	changesWritten int              // Number of calls that are in etcd. -1 if this Store is not elected.
	status         StoreStatus
	started        bool

	ctx  context.Context // Cancelled by Close.
	stop context.CancelFunc
	done chan struct{} // Closed when run has returned.

	// Only for run.
	etcd        *etcdClient
	lease       int64
	revisions   map[string]int64 // Of the leader and the head, which each transaction compares.
	keepAliveAt time.Time
	headAt      time.Time
}

// value is a version of an object.
type value struct {
	data   []byte // Empty if the version is in etcd or cannot be written.
	digest digest
	owner  string // Namespace and name of the Service.
}

type operation struct {
	owner string
	phase int // Endpoints are added before Services, and removed after them.
	path  string
	data  []byte // nil: removes the object.
}

// NewStore returns a Store for the etcd members at `endpoints`, such as "https://etcd-1.example:2379", and
// for the --prefix of svcmap-etcd, such as "/svcmap/v1/DOMAIN". It uses the next member after a failure, and
// connects after the first Set or Update.
func NewStore(endpoints []string, prefix string, options StoreOptions) (*Store, error) {
	if !strings.HasPrefix(prefix, "/") || strings.HasSuffix(prefix, "/") {
		return nil, fmt.Errorf("svcmap: prefix: Invalid value: %q: must start with \"/\" and not end with \"/\"", prefix)
	}
	if options.Name == "" {
		host, err := os.Hostname()
		if err != nil {
			return nil, fmt.Errorf("svcmap: default of StoreOptions.Name: %w", err)
		}
		options.Name = host
	}
	if options.LeaseSeconds == 0 {
		options.LeaseSeconds = 15
	}
	if options.OnError == nil {
		options.OnError = func(err error) { log.Printf("%s: %v", prefix, err) }
	}
	client, err := newEtcdClient(endpoints, options.TLS, options.OnError)
	if err != nil {
		return nil, err
	}
	s := &Store{prefix: prefix + "/", head: prefix + "/state/head", leader: prefix + "/leader", options: options,
		changed: make(chan struct{}), desired: map[string]value{}, queued: map[string]bool{},
		held: map[string]bool{}, changesWritten: -1, done: make(chan struct{}), etcd: client}
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s, nil
}

// Set replaces the list of objects that etcd should contain, including Nodes. All other objects are removed.
// If the list contains several versions of an object, the last one is used. Set serializes the objects, so the
// caller can modify them afterwards. It returns an error if an object has no valid name, or ErrClosed.
//
// The removals are held if they would remove at least half of at least 20 objects of one kind, and OnError
// receives a *RemovalsHeldError.
func (s *Store) Set(objects []Object) error { return s.set(objects, false) }

// SetAndAcceptRemovals is Set, but removes any number of objects.
func (s *Store) SetAndAcceptRemovals(objects []Object) error { return s.set(objects, true) }

func (s *Store) set(objects []Object, acceptRemovals bool) error {
	versions, err := s.versions(objects)
	if err != nil {
		return err
	}
	s.mu.Lock()
	if err := s.start(); err != nil {
		s.mu.Unlock()
		return err
	}
	for path := range s.desired {
		s.queued[path] = true
	}
	s.desired, s.complete, s.acceptRemovals = versions, true, acceptRemovals
	loss := s.compareAll()
	s.mu.Unlock()
	s.reportLoss(loss)
	return nil
}

// Update adds or replaces objects, and removes objects by kind, namespace and name. Nodes apply the changes of
// a Service and its endpoints together, unless they exceed 119 objects or 1 MiB. Before the first Set, nothing
// is removed from etcd, because the list is not complete. See Set for the errors.
func (s *Store) Update(changed, deleted []Object) error {
	versions, err := s.versions(changed)
	if err != nil {
		return err
	}
	if err := checkObjects(deleted); err != nil {
		return err
	}
	var removed []string
	for _, object := range deleted {
		path, err := pathOf(object)
		if err != nil {
			return err
		}
		removed = append(removed, path)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.start(); err != nil {
		return err
	}
	for path, version := range versions {
		s.desired[path] = version
		delete(s.held, path)
		s.queued[path] = true
	}
	for _, path := range removed {
		delete(s.desired, path)
		if s.complete {
			delete(s.held, path)
		} else {
			s.held[path] = true
		}
		s.queued[path] = true
	}
	return nil
}

// Wait returns when this Store is the elected writer and etcd contains all changes of earlier calls of Set and
// Update, except for rejected objects and held removals. It returns the sequence number of the last
// transaction, for `svcmapctl fleet wait --seq`.
//
// Before the first Set or Update, Wait returns an error.
func (s *Store) Wait(ctx context.Context) (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.started && s.ctx.Err() == nil {
		return 0, fmt.Errorf("svcmap: wait: no objects: call Set or Update first")
	}
	for target := s.changes; s.changesWritten < target; {
		changed := s.changed
		s.mu.Unlock()
		var err error
		select {
		case <-changed:
		case <-ctx.Done():
			err = ctx.Err()
		case <-s.ctx.Done():
			err = ErrClosed
		}
		s.mu.Lock()
		if err != nil {
			return 0, err
		}
	}
	return s.status.Seq, nil
}

// Status returns the current state.
func (s *Store) Status() StoreStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	status := s.status
	status.Objects = len(s.stored)
	for path := range s.held {
		if _, stored := s.stored[path]; stored {
			status.Held++
		}
	}
	for _, version := range s.desired {
		if len(version.data) == 0 {
			status.Rejected++
		}
	}
	return status
}

// Close stops the Store and gives up the leadership. Changes that were not written yet are discarded, and a
// transaction that waits for etcd may or may not be applied; use Wait to avoid both. etcd keeps all objects.
func (s *Store) Close() {
	s.stop()
	s.mu.Lock()
	started := s.started
	s.mu.Unlock()
	if started {
		<-s.done
	}
}

// directories contains the position of each kind below the prefix.
var directories = map[svcmapv1.Kind]string{
	svcmapv1.Kind_KIND_SERVICE:        "state/services/",
	svcmapv1.Kind_KIND_ENDPOINT_SLICE: "state/endpointslices/",
	svcmapv1.Kind_KIND_SERVICE_CIDR:   "state/servicecidrs/",
	svcmapv1.Kind_KIND_NODE:           "nodes/",
}

const serviceNameLabel = "kubernetes.io/service-name"

// usedNames contains the labels and annotations that agents use (ObjectMeta in objects.proto), except for those with
// usedPrefix.
var usedNames = map[string]bool{
	serviceNameLabel: true, "service.kubernetes.io/headless": true,
	"service.kubernetes.io/service-proxy-name": true, "topology.kubernetes.io/zone": true,
	"endpoints.kubernetes.io/last-change-trigger-time": true,
}

const usedPrefix = "svcmap/"

// namesOf returns the number of names in the path of an object.
func namesOf(kind svcmapv1.Kind) int {
	if kind == svcmapv1.Kind_KIND_SERVICE || kind == svcmapv1.Kind_KIND_ENDPOINT_SLICE {
		return 2
	}
	return 1
}

// kindOf returns the kind of the object with this path, or KIND_UNSPECIFIED if it is not the path of an object.
func kindOf(path string) svcmapv1.Kind {
	for kind, directory := range directories {
		if names := strings.Split(strings.TrimPrefix(path, directory), "/"); strings.HasPrefix(path, directory) &&
			len(names) == namesOf(kind) && names[0] != "" && names[len(names)-1] != "" {
			return kind
		}
	}
	return svcmapv1.Kind_KIND_UNSPECIFIED
}

func pathOf(object Object) (string, error) {
	k := keyOf(object)
	path := directories[k.kind]
	if k.namespace != "" {
		path += k.namespace + "/"
	}
	if path += k.name; kindOf(path) != k.kind {
		return "", fmt.Errorf("svcmap: %s: metadata: Invalid value: namespace %q, name %q: a name, and a namespace for "+
			"Services and EndpointSlices only, without slashes, are required", k, k.namespace, k.name)
	}
	return path, nil
}

func newValue(path string, data []byte, keep bool) value {
	sum := sha256.Sum256(data)
	v := value{owner: path[strings.Index(path, "/")+1:]}
	copy(v.digest[:], sum[:])
	if keep {
		v.data = data
	}
	if kind := kindOf(path); namesOf(kind) == 2 {
		v.owner = path[len(directories[kind]):]
		var slice svcmapv1.EndpointSlice
		// A slice in JSON, which another writer has written, belongs to no Service here.
		if kind == svcmapv1.Kind_KIND_ENDPOINT_SLICE && proto.Unmarshal(data, &slice) == nil {
			if service := slice.GetMetadata().GetLabels()[serviceNameLabel]; service != "" {
				v.owner = v.owner[:strings.Index(v.owner, "/")+1] + service
			}
		}
	}
	return v
}

// serialized omits labels and annotations that agents do not use, because their changes would wake all nodes.
func serialized(object Object) ([]byte, error) {
	object = proto.Clone(object).(Object)
	for _, names := range []map[string]string{object.GetMetadata().GetLabels(), object.GetMetadata().GetAnnotations()} {
		for name := range names {
			if !usedNames[name] && !strings.HasPrefix(name, usedPrefix) {
				delete(names, name)
			}
		}
	}
	return proto.MarshalOptions{Deterministic: true}.Marshal(object)
}

func (s *Store) versions(objects []Object) (map[string]value, error) {
	if err := checkObjects(objects); err != nil {
		return nil, err
	}
	versions := map[string]value{}
	for _, object := range objects {
		path, err := pathOf(object)
		if err != nil {
			return nil, err
		}
		data, err := serialized(object)
		if err == nil && len(data) > maxValueBytes {
			err = fmt.Errorf("Too long: %d bytes: must have at most %d bytes", len(data), maxValueBytes)
		}
		if err != nil {
			s.options.OnError(fmt.Errorf("svcmap: %s%s: %w; the earlier version, if any, stays in etcd", s.prefix, path, err))
		}
		versions[path] = newValue(path, data, err == nil)
	}
	return versions, nil
}

// compareAll queues all objects. It returns the loss if removals are held because of it. Expects s.mu to be
// locked.
func (s *Store) compareAll() string {
	stored, lost := map[svcmapv1.Kind]int{}, map[svcmapv1.Kind]int{}
	s.held = map[string]bool{}
	for path := range s.stored {
		s.queued[path] = true
		kind := kindOf(path)
		stored[kind]++
		if _, desired := s.desired[path]; !desired {
			lost[kind]++
			s.held[path] = true
		}
	}
	for path := range s.desired {
		s.queued[path] = true
	}
	var losses []string
	for kind, count := range lost {
		if stored[kind] >= minHeld && 2*count >= stored[kind] {
			name := strings.TrimSuffix(strings.TrimPrefix(directories[kind], "state/"), "/")
			losses = append(losses, fmt.Sprintf("%d of %d %s", count, stored[kind], name))
		}
	}
	if !s.complete {
		return ""
	}
	if s.acceptRemovals || len(losses) == 0 {
		s.held = map[string]bool{}
		return ""
	}
	sort.Strings(losses)
	return strings.Join(losses, ", ")
}

func (s *Store) reportLoss(loss string) {
	if loss != "" {
		s.options.OnError(&RemovalsHeldError{loss})
	}
}

// start counts a change, and starts run. Expects s.mu to be locked.
func (s *Store) start() error {
	if s.ctx.Err() != nil {
		return ErrClosed
	}
	s.changes++
	s.notify()
	if !s.started {
		s.started = true
		go s.run()
	}
	return nil
}

// notify wakes all waiters. Expects s.mu to be locked.
func (s *Store) notify() {
	close(s.changed)
	s.changed = make(chan struct{})
}
