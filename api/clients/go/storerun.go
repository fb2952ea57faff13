package svcmap

import (
	"encoding/json"
	"fmt"
	"sort"
	"strings"
	"time"

	"github.com/you/svcmap/api/clients/go/internal/etcdv3"
	"github.com/you/svcmap/api/clients/go/svcmapv1"
)

// run leads whenever the Store is elected, until Close.
func (s *Store) run() {
	defer close(s.done)
	for {
		err := s.lead()
		s.resign()
		if s.ctx.Err() != nil {
			return
		}
		s.options.OnError(err)
		if pause(s.ctx, afterError) != nil {
			return
		}
	}
}

// lead writes objects until an error.
func (s *Store) lead() error {
	for _, step := range []func() error{s.campaign, s.takeOver, s.load} {
		if err := step(); err != nil {
			return err
		}
	}
	for {
		changes, operations, err := s.next()
		if err != nil {
			return err
		}
		for _, batch := range transactions(operations) {
			if err := s.beat(); err != nil {
				return err
			}
			if err := s.commit(batch); err != nil {
				return err
			}
		}
		if err := s.beat(); err != nil {
			return err
		}
		s.mu.Lock()
		s.changesWritten = changes
		s.notify()
		s.mu.Unlock()
	}
}

// campaign returns when this Store has written PREFIX/leader.
func (s *Store) campaign() error {
	for {
		found, err := s.etcd.read(s.ctx, &etcdv3.RangeRequest{Key: []byte(s.leader)})
		if err != nil {
			return err
		}
		if len(found.Kvs) > 0 {
			if err := pause(s.ctx, pollLeader); err != nil {
				return err
			}
			continue
		}
		if s.lease, err = s.etcd.grant(s.ctx, s.options.LeaseSeconds); err != nil {
			return err
		}
		s.keepAliveAt = time.Now().Add(s.keepAliveInterval())
		revision, conflict, err := s.etcd.write(s.ctx, s.leader, map[string]interface{}{"name": s.options.Name}, s.lease,
			map[string]int64{s.leader: 0}, nil)
		if conflict != nil {
			s.resign()
			continue
		}
		s.revisions = map[string]int64{s.leader: revision}
		return err
	}
}

func (s *Store) keepAliveInterval() time.Duration {
	return time.Duration(s.options.LeaseSeconds) * time.Second / 3
}

// takeOver writes a head with a new epoch, after which transactions of the previous writer fail.
func (s *Store) takeOver() error {
	found, err := s.etcd.read(s.ctx, &etcdv3.RangeRequest{Key: []byte(s.head)})
	if err != nil {
		return err
	}
	var head struct{ Format, Seq, Epoch *uint64 }
	zero := uint64(0)
	head.Seq, head.Epoch = &zero, &zero
	s.revisions[s.head] = 0
	for _, pair := range found.Kvs {
		s.revisions[s.head] = pair.ModRevision
		head.Seq, head.Epoch = nil, nil
		if json.Unmarshal(pair.Value, &head) != nil || head.Format == nil || *head.Format != 1 || head.Seq == nil ||
			head.Epoch == nil {
			return fmt.Errorf("svcmap: %s: Invalid value: %s: must be a head of format 1, such as "+
				`{"format":1,"seq":1,"epoch":1,"nonce":"x"}`, s.head, pair.Value)
		}
	}
	s.mu.Lock()
	s.status.Seq, s.status.Epoch = *head.Seq, *head.Epoch+1
	s.mu.Unlock()
	return s.commit(nil)
}

// load reads all keys. No other writer changes them, because the head has the epoch of this Store.
func (s *Store) load() error {
	stored := map[string]value{}
	for _, directory := range []string{"state", "nodes"} {
		key, end := []byte(s.prefix+directory+"/"), []byte(s.prefix+directory+"0")
		for more := true; more; {
			page, err := s.etcd.read(s.ctx, &etcdv3.RangeRequest{Key: key, RangeEnd: end, Limit: pageKeys})
			if err != nil {
				return err
			}
			for _, pair := range page.Kvs {
				path := strings.TrimPrefix(string(pair.Key), s.prefix)
				if kindOf(path) != svcmapv1.Kind_KIND_UNSPECIFIED {
					stored[path] = newValue(path, pair.Value, false)
				}
				key = append(pair.Key, 0)
			}
			more = page.More
			if err := s.beat(); err != nil { // Many pages can take longer than the lease.
				return err
			}
		}
	}
	s.mu.Lock()
	s.stored, s.status.Leader = stored, true
	loss := s.compareAll()
	s.mu.Unlock()
	s.reportLoss(loss)
	return nil
}

// next waits until there are changes, or until the lease or the head is due. It empties the queue.
func (s *Store) next() (changes int, operations []operation, err error) {
	due := s.keepAliveAt
	if s.headAt.Before(due) {
		due = s.headAt
	}
	timer := time.NewTimer(time.Until(due))
	defer timer.Stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	for waiting := true; waiting && s.changesWritten == s.changes; {
		changed := s.changed
		s.mu.Unlock()
		select {
		case <-changed:
		case <-timer.C:
			waiting = false
		case <-s.ctx.Done():
			waiting = false
		}
		s.mu.Lock()
	}
	for path := range s.queued {
		want, desired := s.desired[path]
		have, stored := s.stored[path]
		phase := 0
		if kindOf(path) == svcmapv1.Kind_KIND_SERVICE {
			phase = 1
		}
		if !desired && stored && !s.held[path] {
			operations = append(operations, operation{have.owner, 3 - phase, path, nil})
		} else if len(want.data) > 0 && want.digest != have.digest { // Rejected versions have no data.
			operations = append(operations, operation{want.owner, phase, path, want.data})
		}
	}
	s.queued = map[string]bool{}
	return s.changes, operations, s.ctx.Err()
}

// transactions splits operations. A Service and its endpoints are in one transaction if they fit into it.
func transactions(operations []operation) (batches [][]operation) {
	sort.Slice(operations, func(i, j int) bool {
		a, b := operations[i], operations[j]
		if a.owner != b.owner {
			return a.owner < b.owner
		}
		return a.phase < b.phase || (a.phase == b.phase && a.path < b.path)
	})
	var batch []operation
	size := 0
	flush := func() {
		if len(batch) > 0 {
			batches = append(batches, batch)
		}
		batch, size = nil, 0
	}
	for len(operations) > 0 {
		count, bytes := 0, 0 // Of the operations of one owner.
		for count < len(operations) && operations[count].owner == operations[0].owner {
			bytes += len(operations[count].data)
			count++
		}
		if len(batch)+count > maxOperations || size+bytes > maxTxnBytes {
			flush()
		}
		for _, o := range operations[:count] {
			if len(batch) == maxOperations || size+len(o.data) > maxTxnBytes {
				flush()
			}
			batch = append(batch, o)
			size += len(o.data)
		}
		operations = operations[count:]
	}
	flush()
	return batches
}

// beat renews the lease and writes the head if it is time to.
func (s *Store) beat() error {
	if !time.Now().Before(s.keepAliveAt) {
		exists, err := s.etcd.keepAlive(s.ctx, s.lease)
		if err != nil {
			return err
		}
		if !exists {
			return &DeposedError{s.leader + ": the lease has expired"}
		}
		s.keepAliveAt = time.Now().Add(s.keepAliveInterval())
	}
	if !time.Now().Before(s.headAt) {
		return s.commit(nil)
	}
	return nil
}

// commit writes one transaction with the next head.
func (s *Store) commit(operations []operation) error {
	var requests []*etcdv3.RequestOp
	for _, o := range operations {
		if o.data == nil {
			requests = append(requests, etcdDelete(s.prefix+o.path))
		} else {
			requests = append(requests, etcdPut(s.prefix+o.path, o.data, 0))
		}
	}
	head := map[string]interface{}{"format": 1, "seq": s.status.Seq + 1, "epoch": s.status.Epoch}
	revision, conflict, err := s.etcd.write(s.ctx, s.head, head, 0, s.revisions, requests)
	switch {
	case err != nil:
		return err
	case conflict != nil && conflict.ModRevision == s.revisions[s.head]:
		return &DeposedError{s.leader + ": the lease has expired"}
	case conflict != nil:
		return &DeposedError{fmt.Sprintf("%s: another writer has written %s", s.head, conflict.Value)}
	}
	s.revisions[s.head] = revision
	s.headAt = time.Now().Add(headInterval)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status.Seq++
	s.status.Transactions++
	s.status.Written += uint64(len(operations))
	for _, o := range operations {
		if o.data == nil {
			delete(s.stored, o.path)
		} else {
			s.stored[o.path] = newValue(o.path, o.data, false)
		}
	}
	return nil
}

// resign gives up the leadership.
func (s *Store) resign() {
	s.mu.Lock()
	s.status.Leader, s.changesWritten, s.stored = false, -1, nil
	s.mu.Unlock()
	if s.lease != 0 {
		s.etcd.revoke(s.lease)
		s.lease = 0
	}
	s.etcd.disconnect()
}
