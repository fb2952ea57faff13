// An agent without a kernel: answers as the test says, and keeps what it was asked. Runs svcmapctl
// against it within this process.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "svcmap/v1/control.pb.h"

namespace svcmap::api {

struct FakeAnswers {
  absl::Status error;  // Not OK: the answer to every call, after the parts of a stream.
  bool hang = false;   // No answer to any call, or no end of a stream after its parts.
  v1::Ack ack;
  v1::GetStatusResponse status;
  std::vector<v1::ListResponse> list;  // The parts of the answer.
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
};

class FakeAgent {
 public:
  // `max_bytes` of a request, as the real agent's limit; -1: any.
  explicit FakeAgent(FakeAnswers answers, int max_bytes = -1, const std::string& socket = "");
  ~FakeAgent();

  const std::string& address() const { return address_; }
  SeenRequests seen() const;

 private:
  class Service;
  std::string address_;
  std::unique_ptr<Service> service_;
};

// A path for a socket in a fresh directory of this process; removed at the end of the program.
std::string FreshSocketPath();

struct CtlResult {
  int code;
  std::string out;
  std::string err;
};

CtlResult Ctl(const std::vector<std::string>& args, const std::string& input = "");
CtlResult Ctl(const FakeAgent& agent, std::vector<std::string> args, const std::string& input = "");

}  // namespace svcmap::api
