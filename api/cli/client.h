// The agent, one call at a time. Only client.cc and channel.h know gRPC.
//
// Errors of every call, by code:
//   kUnavailable        no connection: the agent got nothing
//   kDeadlineExceeded   no answer, too slow or broken off: what the agent did is unknown
//   kResourceExhausted  the request is larger than the agent takes
//   anything else       the agent refused the call; the message begins with the name of the code
// One thread at a time.
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
  // `target` as ParseTarget gives it; `tls` was checked, without a CA there is no TLS. Connects
  // with the first call. `timeout` bounds the time a call waits for the agent: connecting, and then
  // each answer or part of an answer.
  Client(const std::string& target, const TlsMaterial& tls, std::chrono::milliseconds timeout);
  ~Client();

  absl::StatusOr<v1::Ack> Apply(const v1::ApplyRequest& request);
  absl::StatusOr<v1::Ack> Remove(const v1::RemoveRequest& request);

  // Sends the objects as a snapshot, over a stream of its own, which ends that of a controller. The
  // answer is that of the snapshot's end, with what the batches before it had to say.
  absl::StatusOr<v1::Ack> Replace(const std::vector<v1::Object>& objects);

  // Waits no longer than `at_most`, if that is shorter than the client's own timeout.
  absl::StatusOr<v1::GetStatusResponse> GetStatus(std::chrono::milliseconds at_most);
  absl::StatusOr<v1::GetStatusResponse> GetStatus();

  absl::StatusOr<v1::ExplainResponse> Explain(const v1::ExplainRequest& request);

  // Give every part to `take` as it arrives. When `take` returns false the call ends early, with
  // OK.
  absl::Status List(const v1::ListRequest& request,
                    const std::function<bool(const v1::ListResponse&)>& take);
  absl::Status Dump(const v1::DumpRequest& request,
                    const std::function<bool(const v1::DumpResponse&)>& take);
  // The same; after the first event it waits for the others for as long as it takes.
  absl::Status Watch(const std::function<bool(const v1::WatchEvent&)>& take);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace svcmap::api
