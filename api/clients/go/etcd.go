package svcmap

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/you/svcmap/api/clients/go/internal/etcdv3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
)

const (
	etcdTimeout    = 5 * time.Second
	firstEtcdRetry = 100 * time.Millisecond
	lastEtcdRetry  = 5 * time.Second
)

// etcdClient sends the requests of a Store to one endpoint after the other until one of them answers. Not
// safe for concurrent use.
type etcdClient struct {
	endpoints []string
	tls       *tls.Config
	onError   func(error) // Receives errors after which the request is sent again.
	current   int         // Index in endpoints.
	conn      *grpc.ClientConn
	retry     time.Duration
}

func newEtcdClient(endpoints []string, config *tls.Config, onError func(error)) (*etcdClient, error) {
	if len(endpoints) == 0 {
		return nil, fmt.Errorf("svcmap: endpoints: Required value")
	}
	c := &etcdClient{endpoints: endpoints, tls: config, onError: onError, retry: firstEtcdRetry}
	for _, endpoint := range endpoints {
		if _, _, err := c.dialOptions(endpoint); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// dialOptions returns the name of an endpoint in gRPC, and its options.
func (c *etcdClient) dialOptions(endpoint string) (string, []grpc.DialOption, error) {
	parts := strings.SplitN(endpoint, "://", 2)
	if len(parts) < 2 || parts[1] == "" || (parts[0] != "http" && parts[0] != "https" && parts[0] != "unix") {
		return "", nil, fmt.Errorf("svcmap: endpoints: Invalid value: %q: must be http://HOST:PORT, "+
			"https://HOST:PORT or unix:///PATH", endpoint)
	}
	if parts[0] == "unix" {
		return connectTo(endpoint)
	}
	name, options, err := connectTo("tcp://" + strings.TrimSuffix(parts[1], "/"))
	if parts[0] == "http" {
		return name, append(options, grpc.WithInsecure()), err
	}
	if c.tls == nil {
		return "", nil, fmt.Errorf("svcmap: endpoints: Invalid value: %q: TLS is required for https://", endpoint)
	}
	return name, append(options, grpc.WithTransportCredentials(credentials.NewTLS(c.tls))), err
}

func etcdPut(key string, value []byte, lease int64) *etcdv3.RequestOp {
	return &etcdv3.RequestOp{Request: &etcdv3.RequestOp_RequestPut{
		RequestPut: &etcdv3.PutRequest{Key: []byte(key), Value: value, Lease: lease}}}
}

func etcdDelete(key string) *etcdv3.RequestOp {
	return &etcdv3.RequestOp{Request: &etcdv3.RequestOp_RequestDeleteRange{
		RequestDeleteRange: &etcdv3.DeleteRangeRequest{Key: []byte(key)}}}
}

func etcdGet(request *etcdv3.RangeRequest) *etcdv3.RequestOp {
	return &etcdv3.RequestOp{Request: &etcdv3.RequestOp_RequestRange{RequestRange: request}}
}

func (c *etcdClient) read(ctx context.Context, request *etcdv3.RangeRequest) (*etcdv3.RangeResponse, error) {
	answer, err := c.txn(ctx, &etcdv3.TxnRequest{Success: []*etcdv3.RequestOp{etcdGet(request)}},
		fmt.Sprintf("read of %s", request.Key))
	if err != nil {
		return nil, err
	}
	return answer.Responses[0].GetResponseRange(), nil
}

// write writes `fields` with a nonce as JSON to the key, and the other requests, in one transaction. It returns
// the revision of the transaction. If a key does not have its revision in `revisions`, it writes nothing, and
// `conflict` is the key as it is in etcd. After a lost answer, the same transaction is sent again, and the nonce
// shows whether etcd has already applied it.
func (c *etcdClient) write(ctx context.Context, key string, fields map[string]interface{}, lease int64,
	revisions map[string]int64, others []*etcdv3.RequestOp) (revision int64, conflict *etcdv3.KeyValue, err error) {
	var nonce [8]byte
	if _, err := rand.Read(nonce[:]); err != nil {
		return 0, nil, err
	}
	fields["nonce"] = hex.EncodeToString(nonce[:])
	value, err := json.Marshal(fields)
	if err != nil {
		return 0, nil, err
	}
	request := &etcdv3.TxnRequest{
		Success: append([]*etcdv3.RequestOp{etcdPut(key, value, lease)}, others...),
		Failure: []*etcdv3.RequestOp{etcdGet(&etcdv3.RangeRequest{Key: []byte(key)})},
	}
	for compared, revision := range revisions {
		request.Compare = append(request.Compare, &etcdv3.Compare{Target: etcdv3.Compare_MOD, Key: []byte(compared),
			TargetUnion: &etcdv3.Compare_ModRevision{ModRevision: revision}})
	}
	answer, err := c.txn(ctx, request, subjectOf(key, others))
	if err != nil {
		return 0, nil, err
	}
	if answer.Succeeded {
		return answer.GetHeader().GetRevision(), nil, nil
	}
	found := &etcdv3.KeyValue{}
	if pairs := answer.Responses[0].GetResponseRange().Kvs; len(pairs) > 0 {
		found = pairs[0]
	}
	if string(found.Value) != string(value) {
		return 0, found, nil
	}
	return found.ModRevision, nil, nil
}

// subjectOf names the keys of a transaction.
func subjectOf(key string, others []*etcdv3.RequestOp) string {
	var keys []string
	for _, other := range others {
		if len(keys) == 3 {
			keys = append(keys, "...")
			break
		}
		keys = append(keys, string(other.GetRequestPut().GetKey())+string(other.GetRequestDeleteRange().GetKey()))
	}
	if len(keys) == 0 {
		keys = []string{key}
	}
	return "write of " + strings.Join(keys, ", ")
}

// grant returns the ID of a new lease.
func (c *etcdClient) grant(ctx context.Context, seconds int64) (int64, error) {
	var answer etcdv3.LeaseGrantResponse
	err := c.call(ctx, "lease", func(ctx context.Context) error {
		return c.conn.Invoke(ctx, "/etcdserverpb.Lease/LeaseGrant", &etcdv3.LeaseGrantRequest{TTL: seconds}, &answer)
	})
	return answer.ID, err
}

// keepAlive renews a lease. It returns whether the lease exists.
func (c *etcdClient) keepAlive(ctx context.Context, lease int64) (bool, error) {
	var answer etcdv3.LeaseKeepAliveResponse
	err := c.call(ctx, "lease", func(ctx context.Context) error {
		stream, err := c.conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true},
			"/etcdserverpb.Lease/LeaseKeepAlive")
		if err != nil {
			return err
		}
		if err := stream.SendMsg(&etcdv3.LeaseKeepAliveRequest{ID: lease}); err != nil && err != io.EOF {
			return err
		}
		return stream.RecvMsg(&answer)
	})
	return answer.TTL > 0, err
}

// revoke deletes a lease and its key. It does not retry, because the lease expires by itself.
func (c *etcdClient) revoke(lease int64) {
	ctx, cancel := context.WithTimeout(context.Background(), etcdTimeout)
	defer cancel()
	err := c.connect()
	if err == nil {
		err = c.conn.Invoke(ctx, "/etcdserverpb.Lease/LeaseRevoke", &etcdv3.LeaseRevokeRequest{ID: lease},
			&etcdv3.LeaseRevokeResponse{})
	}
	if err != nil {
		c.onError(c.failure("lease", err))
	}
}

// txn sends a transaction. Its answer has one response for each operation, and the response to a read is a
// RangeResponse.
func (c *etcdClient) txn(ctx context.Context, request *etcdv3.TxnRequest, subject string) (*etcdv3.TxnResponse, error) {
	var answer etcdv3.TxnResponse
	err := c.call(ctx, subject, func(ctx context.Context) error {
		if err := c.conn.Invoke(ctx, "/etcdserverpb.KV/Txn", request, &answer); err != nil {
			return err
		}
		operations := request.Success // Without comparisons, etcd always executes these operations.
		if !answer.Succeeded && len(request.Compare) > 0 {
			operations = request.Failure
		}
		if len(answer.Responses) != len(operations) {
			return fmt.Errorf("responses: Invalid value: %d items: must have %d items", len(answer.Responses), len(operations))
		}
		for i, operation := range operations {
			if operation.GetRequestRange() != nil && answer.Responses[i].GetResponseRange() == nil {
				return fmt.Errorf("responses[%d].response_range: Required value", i)
			}
		}
		return nil
	})
	return &answer, err
}

// call repeats a call until etcd answers. It returns an error if etcd rejects the request or if the context
// is cancelled.
func (c *etcdClient) call(ctx context.Context, subject string, call func(context.Context) error) error {
	for {
		err := c.connect()
		if err == nil {
			attempt, cancel := context.WithTimeout(ctx, etcdTimeout)
			err = call(attempt)
			cancel()
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil {
			c.retry = firstEtcdRetry
			return nil
		}
		failure := c.failure(subject, err)
		if code := status.Code(err); code == codes.InvalidArgument || code == codes.NotFound {
			return failure // A repeated request would fail with the same error.
		}
		c.onError(failure)
		c.disconnect()
		c.current = (c.current + 1) % len(c.endpoints)
		if err := pause(ctx, c.retry); err != nil {
			return err
		}
		if c.retry *= 2; c.retry > lastEtcdRetry {
			c.retry = lastEtcdRetry
		}
	}
}

func (c *etcdClient) failure(subject string, err error) error {
	return fmt.Errorf("svcmap: %s: %s: %w", subject, c.endpoints[c.current], err)
}

func (c *etcdClient) connect() error {
	if c.conn != nil {
		return nil
	}
	name, options, err := c.dialOptions(c.endpoints[c.current])
	if err == nil {
		c.conn, err = grpc.Dial(name, options...)
	}
	return err
}

func (c *etcdClient) disconnect() {
	if c.conn != nil {
		c.conn.Close()
		c.conn = nil
	}
}

// pause waits, and returns an error if the context is cancelled.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
