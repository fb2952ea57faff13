// Creates Kubernetes Events for findings about Services and EndpointSlices.
#pragma once

#include <chrono>
#include <deque>
#include <string>
#include <string_view>

#include "api/kube/write/object_writer.h"
#include "api/source/findings.h"

namespace svcmap::kube {

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

}  // namespace svcmap::kube
