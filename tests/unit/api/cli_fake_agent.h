// A fake agent without a kernel, which returns responses set by the test and records the requests.
// Ctl runs svcmapctl against the fake agent in the test process.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "api/cli/session.h"
#include "google/protobuf/text_format.h"
#include "svcmap/v1/control.pb.h"

namespace svcmap::api {

// Returns the message in text format.
template <typename T>
T FromText(const std::string& text) {
  T message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  return message;
}

struct FakeAnswers {
  // If not OK, every call fails with this status. A stream fails after the agent has sent all
  // messages.
  absl::Status error;
  bool hang = false;  // If true, calls never return, and streams stay open after the last message.
  v1::Ack ack;
  std::optional<v1::Ack> dry_run;  // Response to dry runs. Default: `ack`.
  v1::GetStatusResponse status;
  std::vector<v1::ListResponse> list;  // Objects of the requested kind are streamed.
  std::vector<std::string> dump;
  v1::ExplainResponse explain;
  std::vector<v1::WatchEvent> watch;
};

struct SeenRequests {
  std::vector<v1::ApplyRequest> apply;
  std::vector<v1::RemoveRequest> remove;
  std::vector<v1::ListRequest> list;
  std::vector<v1::DumpRequest> dump;
  std::vector<v1::ExplainRequest> explain;
  std::vector<v1::PushRequest> push;
};

class FakeAgent {
 public:
  // `max_bytes` is the size limit of requests, as in svcmapd. -1 means no limit.
  explicit FakeAgent(FakeAnswers answers, int max_bytes = -1, const std::string& socket = "");
  ~FakeAgent();

  const std::string& address() const { return address_; }
  SeenRequests seen() const;

 private:
  class Service;
  std::string address_;
  std::unique_ptr<Service> service_;
};

// Returns a path for a socket in a temporary directory. The directory is deleted at program exit.
std::string FreshSocketPath();

struct CtlResult {
  int code;
  std::string out;
  std::string err;
};

CtlResult Ctl(const std::vector<std::string>& args, const std::string& input = "",
              TerminalSize screen = {});
CtlResult Ctl(const FakeAgent& agent, std::vector<std::string> args, const std::string& input = "",
              TerminalSize screen = {});

}  // namespace svcmap::api
