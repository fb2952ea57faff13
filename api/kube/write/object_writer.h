// Base class of writes to the API server: reads an object, and then sends one write request that
// depends on the object. Chooses the next request, based on the previous responses. Contains no
// thread or connection.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "api/kube/http/http_client.h"
#include "nft/base/backoff.h"

namespace svcmap::kube {

// Not thread-safe.
class ObjectWriter {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr Clock::time_point kNever = Clock::time_point::max();

  virtual ~ObjectWriter() = default;

  // The next request must not be sent earlier. kNever: there is nothing to write.
  Clock::time_point not_before() const { return not_before_; }
  HttpRequest Next() const;
  // Handles the response, or the error if no complete response was received.
  void Ended(const absl::StatusOr<HttpResponse>& response, std::string_view body,
             Clock::time_point now);
  const std::string& last_error() const { return last_error_; }  // Empty if nothing failed.

 protected:
  // `subject` is the start of log lines about failures, such as "startup taint not removed".
  ObjectWriter(std::string subject, Backoff::Random random);

  void Read(std::string path, Clock::time_point at);
  void Write(HttpRequest request);  // Sends the request immediately.
  void Finish();
  // Reads the object again after a delay. Logs the reason if it has changed.
  void Retry(const std::string& why, Clock::time_point now, std::chrono::seconds retry_after = {});

  bool writing() const { return write_.has_value(); }  // Whether the last request was a write.
  std::chrono::milliseconds RandomPart(std::chrono::milliseconds of) const {
    return backoff_.RandomPart(of);
  }

 private:
  // Handle responses. They call Read, Write, Finish or Retry.
  virtual void OnObject(std::string_view body, Clock::time_point now) = 0;
  virtual void OnWritten(Clock::time_point now) = 0;
  // Handles a 4xx status. `why` describes the error for the log.
  virtual void OnRejected(int http_status, const std::string& why, Clock::time_point now) = 0;

  const std::string subject_;
  Backoff backoff_;
  std::string path_;                  // Of the object.
  std::optional<HttpRequest> write_;  // Absent until the object was read.
  Clock::time_point not_before_ = kNever;
  std::string last_error_;
};

}  // namespace svcmap::kube
