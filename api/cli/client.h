// Client of the agent's Control service. Supports only one call at a time. Only client.cc and
// channel.h use gRPC.
//
// If the client cannot connect, a call returns kUnavailable, and the agent has not received the
// request. If a call times out or the connection is lost, the call returns kDeadlineExceeded, and
// the agent may have processed the request. If the request exceeds the agent's size limit, the call
// returns kResourceExhausted. All other codes mean that the agent rejected the call, and the error
// message starts with the name of the code.
//
// Not thread-safe.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "api/cli/object_id.h"
#include "api/tls/tls_files.h"
#include "svcmap/v1/control.pb.h"

namespace svcmap::api {

// Read-only calls of the agent's API. A Client sends the calls to an agent, and a BundleReader
// answers the calls from a support bundle.
class Reader {
 public:
  virtual ~Reader() = default;

  virtual absl::StatusOr<v1::GetStatusResponse> GetStatus() = 0;
  virtual absl::StatusOr<v1::ExplainResponse> Explain(const v1::ExplainRequest& request) = 0;

  // Pass each object that matches `filter`, or each part of the text, to `take` when it arrives. If
  // `take` returns false, the call is cancelled and returns OK. An unspecified kind and an empty
  // namespace or name match all objects.
  virtual absl::Status List(const ObjectId& filter,
                            const std::function<bool(const v1::Object&)>& take) = 0;
  virtual absl::Status Dump(v1::DumpRequest::What what,
                            const std::function<bool(const std::string& text)>& take) = 0;

  // Lists all objects that match `filter`.
  absl::Status ForEach(const ObjectId& filter, const std::function<void(const v1::Object&)>& take);
};

class Client : public Reader {
 public:
  virtual absl::StatusOr<v1::Ack> Apply(const v1::ApplyRequest& request) = 0;
  virtual absl::StatusOr<v1::Ack> Remove(const v1::RemoveRequest& request) = 0;
  virtual absl::StatusOr<v1::Ack> AcceptSnapshot() = 0;

  // Replaces the agent's complete state with `objects`. If `accept_removals` is true, the agent
  // does not hold the removals of other objects. Sends the objects as a snapshot over a new Push
  // stream, which ends the session of a connected controller. Returns the Ack for the end of the
  // snapshot, including the results of all batches.
  virtual absl::StatusOr<v1::Ack> Replace(const std::vector<v1::Object>& objects,
                                          bool accept_removals) = 0;

  using Reader::GetStatus;
  // Waits for `at_most` or the client's timeout, whichever is shorter.
  virtual absl::StatusOr<v1::GetStatusResponse> GetStatus(std::chrono::milliseconds at_most) = 0;
  // Passes each event to `take`, and waits without a timeout after the first event. While no event
  // arrives, Watch calls `idle` several times per second. If `idle` returns false, the call is
  // cancelled and returns OK.
  virtual absl::Status Watch(const std::function<bool(const v1::WatchEvent&)>& take,
                             const std::function<bool()>& idle) = 0;
};

// `target` must be a result of ParseTarget. `tls` must have passed CheckTlsMaterial. TLS is
// disabled if `tls` contains no CA. Connects on the first call. `timeout` limits the wait for the
// connection, and then the wait for each response or streamed message.
std::unique_ptr<Client> NewClient(const std::string& target, const TlsMaterial& tls,
                                  std::chrono::milliseconds timeout);

}  // namespace svcmap::api
