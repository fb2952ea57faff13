// The agent under test: how to reach it, and the calls beside a stream. Every call has a deadline,
// so a check of an agent that does not answer ends. Any thread.
#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <memory>
#include <string>

#include "svcmap/v1/control.grpc.pb.h"
#include "tests/protocol/objects.h"

namespace svcmap::protocol {

constexpr std::chrono::seconds kPatience{60};  // For one call, and for one stream of a check.

struct Options {
  std::string address;  // unix:///path or tcp://host:port
  // PEM. Without a CA: no TLS.
  std::string ca;
  std::string certificate;
  std::string key;
  // Certificates and their keys, of clients that the agent shall not let do what they want. Empty:
  // not given, so not checked.
  std::string wrong_client;     // Signed by a CA that the agent does not know.
  std::string expired_client;   // Else good.
  std::string outside_client;   // Good, and on no list of the agent's.
  std::string readonly_client;  // On the list of those who may read.
  uint64_t epoch = 0;           // All others that the kit uses are higher.

  bool is_unix() const { return address.starts_with("unix:"); }
};

class Target {
 public:
  explicit Target(Options options);

  const Options& options() const { return options_; }
  v1::Control::Stub& stub() const { return *stub_; }

  // A connection of its own, with these credentials.
  std::shared_ptr<grpc::Channel> Connect(
      const std::shared_ptr<grpc::ChannelCredentials>& credentials) const;
  // With our own ones.
  std::shared_ptr<grpc::Channel> Connect() const;

  // A connected socket and nothing said on it; -1 if that failed.
  int ConnectSocket() const;

  // The next epoch that nobody had, for checks of who leads.
  uint64_t NextEpoch() const { return ++epoch_; }
  // That of all other streams: a stream with a lower one is refused.
  uint64_t epoch() const { return epoch_; }

  grpc::Status GetStatus(v1::GetStatusResponse* response) const;
  grpc::Status Apply(const v1::Service& service, v1::Ack* ack) const;
  // Objects of other namespaces and kinds, too: a snapshot removes them.
  grpc::Status List(State* state) const;

 private:
  Options options_;
  std::unique_ptr<v1::Control::Stub> stub_;
  mutable std::atomic<uint64_t> epoch_;
};

// "INVALID_ARGUMENT", and "INVALID_ARGUMENT: batch number 4 does not follow 4".
std::string CodeName(grpc::StatusCode code);
std::string Text(const grpc::Status& status);

void SetDeadline(grpc::ClientContext& context);

}  // namespace svcmap::protocol
