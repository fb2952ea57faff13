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
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "api/cli/reader.h"
#include "api/tls/tls_files.h"
#include "svcmap/v1/control.pb.h"

namespace svcmap::api {

class Client : public Reader {
 public:
  // `target` must be a result of ParseTarget. `tls` must have passed CheckTlsMaterial. TLS is
  // disabled if `tls` contains no CA. Connects on the first call. `timeout` limits the wait for the
  // connection, and then the wait for each response or streamed message.
  Client(const std::string& target, const TlsMaterial& tls, std::chrono::milliseconds timeout);
  ~Client() override;

  absl::StatusOr<v1::Ack> Apply(const v1::ApplyRequest& request);
  absl::StatusOr<v1::Ack> Remove(const v1::RemoveRequest& request);

  absl::StatusOr<v1::Ack> AcceptSnapshot();

  // Replaces the agent's complete state with `objects`. If `accept_removals` is true, the agent
  // does not hold the removals of other objects. Sends the objects as a snapshot over a new Push
  // stream, which ends the session of a connected controller. Returns the Ack for the end of the
  // snapshot, including the results of all batches.
  absl::StatusOr<v1::Ack> Replace(const std::vector<v1::Object>& objects, bool accept_removals);

  // Waits for `at_most` or the client's timeout, whichever is shorter.
  absl::StatusOr<v1::GetStatusResponse> GetStatus(std::chrono::milliseconds at_most);
  absl::StatusOr<v1::GetStatusResponse> GetStatus() override;
  absl::StatusOr<v1::ExplainResponse> Explain(const v1::ExplainRequest& request) override;
  absl::Status List(const v1::ListRequest& request,
                    const std::function<bool(const v1::ListResponse&)>& take) override;
  absl::Status Dump(const v1::DumpRequest& request,
                    const std::function<bool(const v1::DumpResponse&)>& take) override;
  // Works like List, but waits without a timeout after the first event. While no event arrives,
  // Watch calls `idle` several times per second. If `idle` returns false, the call is cancelled and
  // returns OK.
  absl::Status Watch(const std::function<bool(const v1::WatchEvent&)>& take,
                     const std::function<bool()>& idle);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace svcmap::api
