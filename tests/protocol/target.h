// Connection to the agent under test, and unary calls. All calls have a deadline, so checks end
// even if the agent does not answer. Thread-safe.
#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <memory>
#include <string>

#include "svcmap/v1/control.grpc.pb.h"
#include "tests/protocol/objects.h"

namespace svcmap::protocol {

constexpr std::chrono::seconds kPatience{60};  // Deadline of calls and streams.

struct Options {
  std::string address;  // Address of the agent, for example unix:///path or tcp://host:port.
  // Names of PEM files. Without a CA, connections do not use TLS.
  std::string ca;
  std::string certificate;
  std::string key;
  // Files with a certificate and key of a client that the agent must reject. If the name of a file
  // is empty, the check is skipped.
  std::string wrong_client;     // Signed by a CA that the agent does not trust.
  std::string expired_client;   // Expired but otherwise valid certificate.
  std::string outside_client;   // Valid certificate of a client that has no access.
  std::string readonly_client;  // Valid certificate of a client that has only read access.
  uint64_t epoch = 0;           // Lowest epoch of the checks. Later epochs are higher.

  bool is_unix() const { return address.starts_with("unix:"); }
};

class Target {
 public:
  explicit Target(Options options);

  const Options& options() const { return options_; }
  v1::Control::Stub& stub() const { return *stub_; }

  // Opens a new connection with these credentials.
  std::shared_ptr<grpc::Channel> Connect(
      const std::shared_ptr<grpc::ChannelCredentials>& credentials) const;
  // Opens a new connection with the credentials of the authorized client.
  std::shared_ptr<grpc::Channel> Connect() const;

  // Returns a connected socket, or -1 on failure. Sends no data.
  int ConnectSocket() const;

  // Returns a new epoch for fencing checks.
  uint64_t NextEpoch() const { return ++epoch_; }
  // Returns the current epoch, which all other streams use. The agent rejects lower epochs.
  uint64_t epoch() const { return epoch_; }

  grpc::Status GetStatus(v1::GetStatusResponse* response) const;
  grpc::Status Apply(const v1::Service& service, v1::Ack* ack) const;
  // Lists all objects of the agent.
  grpc::Status List(State* state) const;

 private:
  Options options_;
  std::unique_ptr<v1::Control::Stub> stub_;
  mutable std::atomic<uint64_t> epoch_;
};

// CodeName returns text such as "INVALID_ARGUMENT". Text also contains the message:
// "INVALID_ARGUMENT: batch number 4 does not follow 4".
std::string CodeName(grpc::StatusCode code);
std::string Text(const grpc::Status& status);

void SetDeadline(grpc::ClientContext& context);

}  // namespace svcmap::protocol
