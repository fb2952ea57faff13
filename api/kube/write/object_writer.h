// Writes to the API server. They contain no thread or connection. Not thread-safe.
#pragma once

#include <chrono>
#include <deque>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "api/kube/http/http_client.h"
#include "api/source/findings.h"
#include "nft/base/backoff.h"

namespace svcmap::kube {

// Reads an object, and then sends one write request that depends on the object. Chooses the next
// request, based on the previous responses.
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

// Creates Kubernetes Events for findings about Services and EndpointSlices.
//
// All nodes have the same findings, so the name of an Event depends only on the UID of the object,
// the reason and the message. The first node creates the Event, and the other nodes receive 409.
class EventWriter final : public ObjectWriter {
 public:
  // At most kBurst Events in a short time, and then one Event per kInterval. Findings that exceed
  // this rate cause no Event.
  static constexpr int kBurst = 25;
  static constexpr std::chrono::minutes kInterval{5};
  // Maximum random delay before each Event, because all nodes have a finding at the same time.
  static constexpr std::chrono::milliseconds kSpread{5000};

  explicit EventWriter(std::string node_name, Backoff::Random random = Backoff::SeededRandom());

  void Report(const source::Finding& finding, Clock::time_point now);

 private:
  void OnObject(std::string_view body, Clock::time_point now) override;
  void OnWritten(Clock::time_point now) override { Continue(now); }
  void OnRejected(int http_status, const std::string& why, Clock::time_point now) override;
  void ReadFirst(Clock::time_point now);
  void Continue(Clock::time_point now);  // Ends the first finding of waiting_.

  const std::string node_name_;
  std::deque<source::Finding> waiting_;  // The current request is about the first finding.
  Clock::time_point full_at_;            // When kBurst Events are possible again.
  bool reported_limit_ = false;
  bool forbidden_ = false;
};

// Removes the startup taint from the Node after svcmapd has programmed the Services: all taints
// with the key, regardless of their effect. Never adds a taint.
class StartupTaint final : public ObjectWriter {
 public:
  StartupTaint(std::string node_name, std::string key,
               Backoff::Random random = Backoff::SeededRandom());

  void ServicesProgrammed(Clock::time_point now);

 private:
  void OnObject(std::string_view body, Clock::time_point now) override;
  void OnWritten(Clock::time_point now) override;
  void OnRejected(int http_status, const std::string& why, Clock::time_point now) override;

  const std::string path_;
  const std::string key_;
};

}  // namespace svcmap::kube
