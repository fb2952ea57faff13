// Client of the agent's Control service, one call at a time. Only client.cc and channel.h use gRPC.
//
// Status codes of every call:
//   kUnavailable        no connection; the agent did not receive the request
//   kDeadlineExceeded   no response or connection lost; the agent may have processed the request
//   kResourceExhausted  the request exceeds the agent's size limit
//   any other code      the agent rejected the call; the message starts with the name of the code
// Not thread-safe.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "api/tls/tls_files.h"
#include "svcmap/v1/control.pb.h"

namespace svcmap::api {

class Client {
 public:
  // `target` is a result of ParseTarget. `tls` must be valid. TLS is disabled if `tls` contains no
  // CA. Connects on the first call. `timeout` limits the connection setup, and then the wait for
  // each response or each message of a streamed response.
  Client(const std::string& target, const TlsMaterial& tls, std::chrono::milliseconds timeout);
  ~Client();

  absl::StatusOr<v1::Ack> Apply(const v1::ApplyRequest& request);
  absl::StatusOr<v1::Ack> Remove(const v1::RemoveRequest& request);

  // Replaces the agent's complete state with `objects`. Sends the objects as a snapshot over a new
  // Push stream, which ends the session of a connected controller. The returned Ack combines the
  // Ack of the snapshot's end with the results of all batches.
  absl::StatusOr<v1::Ack> Replace(const std::vector<v1::Object>& objects);

  // Waits for at most `at_most` or the client's timeout, whichever is shorter.
  absl::StatusOr<v1::GetStatusResponse> GetStatus(std::chrono::milliseconds at_most);
  absl::StatusOr<v1::GetStatusResponse> GetStatus();

  absl::StatusOr<v1::ExplainResponse> Explain(const v1::ExplainRequest& request);

  // Pass each message of the response to `take` as it arrives. If `take` returns false, the call is
  // cancelled and returns OK.
  absl::Status List(const v1::ListRequest& request,
                    const std::function<bool(const v1::ListResponse&)>& take);
  absl::Status Dump(const v1::DumpRequest& request,
                    const std::function<bool(const v1::DumpResponse&)>& take);
  // Same as List, except that there is no timeout after the first event.
  absl::Status Watch(const std::function<bool(const v1::WatchEvent&)>& take);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace svcmap::api
