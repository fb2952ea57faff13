package svcmap

import (
	"fmt"
	"sort"

	"github.com/you/svcmap/api/clients/go/svcmapv1"
)

const (
	batchChanges = 1000    // Maximum number of changes in a batch.
	batchBytes   = 1 << 20 // Size at which a batch is sent. A larger object is sent alone.
	// Maximum number of batches without an Ack. More batches would not make commits faster, because
	// the agent merges waiting batches, and fewer changes could be merged here.
	window = 8
	// A list that lacks at least half of at least this number of objects of one kind is sent as a
	// snapshot, so that the agent's bound on removals applies (svcmapd's flag --hold-removals).
	boundedObjects = 20
	frameBytes     = 64 // Upper bound of the size of a PushRequest without its changes.
)

// unknown is the digest of an object whose stored version is unknown. It differs from all versions.
var unknown = digest{0: 0xff, 15: 0xff}

type phase int

const (
	disconnected phase = iota
	beginning          // SnapshotBegin is not sent yet.
	listing            // Sending the objects of a snapshot.
	ending             // SnapshotEnd is sent but not acknowledged.
	following          // The agent stores the acknowledged objects.
)

// object is an object that the agent should have or may have.
type object struct {
	key      key
	want     digest // Desired version.
	entry    []byte // The serialized change to `want`. Empty if the object should not exist.
	sent     digest // Last version sent on the stream.
	stored   digest // Version that the agent stores according to the last Ack.
	rejected bool   // The agent rejected the last version.
	queued   bool
}

type sentObject struct {
	object  *object
	version digest
}

// batch is a message without an Ack.
type batch struct {
	number   uint64
	objects  []sentObject
	bytes    int
	listing  bool   // Part of a snapshot.
	end      bool   // SnapshotEnd.
	progress uint64 // state.popped when the batch was created, or 0 inside a snapshot.
}

// state decides what to send. It has no goroutines, connections or clocks, and it is not safe for
// concurrent use.
//
// The queue contains objects whose desired version may differ from the version that was sent last. Each
// object is in the queue at most once, and its current version is sent, so changes are merged.
type state struct {
	objects map[key]*object
	file    *stateFile // nil without Controller.StateFile.
	token   []byte     // State token for the `stored` versions. Empty if unknown.

	phase  phase
	limits *svcmapv1.Limits
	number uint64
	queue  []*object
	held   string // Loss of the snapshot that the agent holds, as in Ack.held.
	// The desired objects lack most of the objects that the agent may have, or confirm held removals.
	snapshotDue    bool
	acceptRemovals bool // The caller of Set has confirmed the removals.
	// Number of objects ever added to the queue, plus the number of streams and 1, so that nothing is
	// acknowledged before the first stream.
	enqueued uint64
	popped   uint64 // Number of objects ever removed from the queue.
	toList   int    // Objects at the head of the queue that belong to the snapshot.
	unacked  []batch
	bytes    int    // Size of `unacked`.
	acked    uint64 // Progress of the last acknowledged batch.
	batches  uint64 // Number of batches ever sent.
	changes  uint64 // Number of changes ever sent.
	// Number of snapshots ever started.
	snapshots uint64
}

func (s *state) init() { s.objects, s.enqueued = map[key]*object{}, 1 }

// set replaces the desired objects. An object with an error keeps its previous version.
func (s *state) set(changes []change, acceptRemovals bool) {
	listed := make(map[key]bool, len(changes))
	for _, c := range changes {
		listed[c.key] = true
	}
	s.acceptRemovals = acceptRemovals
	if !acceptRemovals {
		s.snapshotDue = s.lacksMost(listed)
	} else if s.snapshotDue = s.held != "" || s.phase == ending; s.snapshotDue {
		// The objects whose removal the agent holds, or can hold at the end of the snapshot, are unknown.
		s.enqueued++ // Waiters wait for the snapshot.
	}
	ordered := append([]change(nil), changes...)
	sort.SliceStable(ordered, func(i, j int) bool {
		return ordered[i].key.rank() < ordered[j].key.rank()
	})
	for _, c := range ordered {
		s.put(c)
	}
	var extra []key
	for k := range s.objects {
		if !listed[k] {
			extra = append(extra, k)
		}
	}
	// Services are removed before their EndpointSlices.
	sort.Slice(extra, func(i, j int) bool { return extra[i].rank() > extra[j].rank() })
	for _, k := range extra {
		s.put(change{key: k})
	}
}

func (s *state) lacksMost(listed map[key]bool) bool {
	known, lost := map[svcmapv1.Kind]int{}, map[svcmapv1.Kind]int{}
	for k, o := range s.objects {
		if o.sent == (digest{}) && o.stored == (digest{}) {
			continue
		}
		known[k.kind]++
		if !listed[k] {
			lost[k.kind]++
		}
	}
	for kind, count := range known {
		if count >= boundedObjects && 2*lost[kind] >= count {
			return true
		}
	}
	return false
}

func (s *state) put(c change) {
	if c.err != nil {
		return
	}
	o := s.objects[c.key]
	if o == nil {
		if len(c.entry) == 0 {
			return
		}
		o = &object{key: c.key}
		s.objects[c.key] = o
	}
	if o.want == c.digest {
		return
	}
	o.want, o.entry = c.digest, c.entry
	s.enqueue(o)
}

func (s *state) enqueue(o *object) {
	if !o.queued {
		o.queued = true
		s.queue = append(s.queue, o)
		s.enqueued++
	}
}

func (s *state) count() (objects, rejected int) {
	for _, o := range s.objects {
		if len(o.entry) > 0 {
			objects++
		}
		if o.rejected {
			rejected++
		}
	}
	return objects, rejected
}

// opened starts a stream. The result tells whether the stream continues without a snapshot.
func (s *state) opened(opened *svcmapv1.Opened) bool {
	s.limits = opened.GetLimits()
	s.number, s.unacked, s.bytes, s.held = 0, nil, 0, ""
	resume := opened.GetResume() == svcmapv1.Resume_CONTINUE && len(s.token) > 0 && !s.snapshotDue
	s.start(resume)
	return resume
}

// start fills the queue with the differences to the objects that the agent stores, or starts a snapshot.
func (s *state) start(resume bool) {
	// All waiters wait for the new queue.
	s.queue, s.popped = nil, s.enqueued+1
	s.enqueued++
	all := make([]*object, 0, len(s.objects))
	for k, o := range s.objects {
		if !resume {
			o.stored = digest{}
		}
		o.sent, o.queued, o.rejected = o.stored, false, false
		if len(o.entry) == 0 && o.stored == (digest{}) {
			delete(s.objects, k)
		} else if o.want != o.stored {
			all = append(all, o)
		}
	}
	sort.Slice(all, func(i, j int) bool {
		a, b := all[i], all[j]
		if gone := len(a.entry) == 0; gone != (len(b.entry) == 0) {
			return !gone
		} else if gone {
			return a.key.rank() > b.key.rank()
		}
		return a.key.rank() < b.key.rank()
	})
	for _, o := range all {
		s.enqueue(o)
	}
	s.phase = following
	if !resume {
		s.phase, s.token, s.toList = beginning, nil, len(all)
		s.snapshotDue = false
		s.snapshots++
	}
}

// disconnect ends the stream. The versions in `stored` still belong to `token`.
func (s *state) disconnect() {
	s.phase, s.unacked, s.bytes = disconnected, nil, 0
}

// progress returns the position in the queue up to which all changes are acknowledged.
func (s *state) progress() uint64 {
	if s.phase == following && len(s.unacked) == 0 {
		return s.popped
	}
	return s.acked
}

func (s *state) room() bool {
	return len(s.unacked) == 0 ||
		len(s.unacked) < window && len(s.unacked) < int(s.limits.GetMaxBatchesInFlight()) &&
			uint64(s.bytes+batchBytes) <= s.limits.GetMaxBytesInFlight()
}

// next returns the next message, or nil if there is nothing to send or too much is unacknowledged.
// `refused` contains results for objects that cannot be sent.
func (s *state) next() (request *svcmapv1.PushRequest, refused []*Result) {
	if s.phase == disconnected {
		return nil, nil
	}
	if (s.phase == ending || s.phase == following) && s.snapshotDue {
		if len(s.unacked) > 0 {
			return nil, nil // Later Acks must not set `stored` of objects that the snapshot lists.
		}
		s.start(false)
	}
	if s.phase == beginning {
		s.phase = listing
		return &svcmapv1.PushRequest{Message: &svcmapv1.PushRequest_SnapshotBegin{
			SnapshotBegin: &svcmapv1.SnapshotBegin{}}}, nil
	}
	if !s.room() {
		return nil, nil
	}
	b, payload, refused := s.fill()
	if len(b.objects) > 0 {
		s.number++
		b.number, b.bytes, b.listing = s.number, len(payload)+frameBytes, s.phase == listing
		if !b.listing {
			b.progress = s.popped
		}
		s.send(b)
		message := &svcmapv1.Batch{Number: b.number}
		// The changes are already serialized. As unknown fields, they are copied into the message.
		message.ProtoReflect().SetUnknown(payload)
		return &svcmapv1.PushRequest{Message: &svcmapv1.PushRequest_Batch{Batch: message}}, refused
	}
	if s.phase == listing {
		s.number++
		s.phase = ending
		s.send(batch{number: s.number, end: true, progress: s.popped})
		return &svcmapv1.PushRequest{Message: &svcmapv1.PushRequest_SnapshotEnd{
			SnapshotEnd: &svcmapv1.SnapshotEnd{Number: s.number, AcceptRemovals: s.acceptRemovals}}}, refused
	}
	return nil, refused
}

func (s *state) send(b batch) {
	s.unacked = append(s.unacked, b)
	s.bytes += b.bytes
	if !b.end {
		s.batches++
		s.changes += uint64(len(b.objects))
	}
}

// fill takes objects from the queue, as many as fit into a batch.
func (s *state) fill() (b batch, payload []byte, refused []*Result) {
	limit := int(s.limits.GetMaxBatchBytes()) - frameBytes
	target := batchBytes
	if limit < target {
		target = limit
	}
	for len(s.queue) > 0 && len(b.objects) < batchChanges && (s.phase != listing || s.toList > 0) {
		o := s.queue[0]
		entry := o.entry
		if o.want != o.sent && len(entry) == 0 {
			entry = removal(o.key)
		}
		if o.want != o.sent && len(b.objects) > 0 && len(payload)+len(entry) > target {
			break
		}
		s.queue[0] = nil
		s.queue = s.queue[1:]
		s.popped++
		o.queued = false
		if s.phase == listing {
			s.toList--
		}
		if o.want == o.sent {
			s.forget(o)
			continue
		}
		o.sent = o.want
		if len(entry) > limit {
			o.rejected = true
			refused = append(refused, o.key.result(fmt.Sprintf(
				"Too long: %d bytes: must fit into a message of --max-batch-bytes %d", len(entry),
				s.limits.GetMaxBatchBytes())))
			continue
		}
		payload = append(payload, entry...)
		b.objects = append(b.objects, sentObject{o, o.want})
	}
	return b, payload, refused
}

// forget deletes an object that is neither desired nor stored.
func (s *state) forget(o *object) {
	if len(o.entry) == 0 && !o.queued && o.sent == (digest{}) && o.stored == (digest{}) {
		delete(s.objects, o.key)
	}
}

// ack processes an Ack and saves the new state. `violation` is an error of the agent.
func (s *state) ack(ack *svcmapv1.Ack) (saved, violation error) {
	if len(s.unacked) == 0 || s.unacked[0].number != ack.GetNumber() {
		return nil, fmt.Errorf("unexpected Ack with number %d", ack.GetNumber())
	}
	b := s.unacked[0]
	s.unacked = s.unacked[1:]
	s.bytes -= b.bytes
	refused := map[key]bool{}
	for _, r := range ack.GetResults() {
		if r.GetSeverity() == svcmapv1.Severity_REFUSED {
			refused[key{r.GetKind(), r.GetNamespace(), r.GetName()}] = true
		}
	}
	for _, sent := range b.objects {
		o := sent.object
		o.rejected = refused[o.key]
		if !o.rejected {
			o.stored = sent.version
		} else if b.listing {
			o.stored = unknown // The agent keeps the previous version, if it has one.
		}
		s.forget(o)
	}
	if b.progress > s.acked {
		s.acked = b.progress
	}
	if ack.GetHeld() != "" || len(ack.GetStateToken()) > 0 { // While the agent holds a snapshot, Acks have no token.
		s.held = ack.GetHeld()
	}
	if b.end && s.phase == ending {
		s.phase = following
	}
	if s.phase != following {
		s.token = nil
		return nil, nil
	}
	s.token = ack.GetStateToken()
	if s.file == nil {
		return nil, nil
	}
	if b.end {
		return s.file.rewrite(s), nil
	}
	return s.file.append(s, b.objects), nil
}

// retry queues all rejected objects again.
func (s *state) retry() {
	for _, o := range s.objects {
		if o.rejected && o.sent != o.stored {
			o.sent = o.stored
			s.enqueue(o)
		}
	}
}
