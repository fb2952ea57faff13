// The stream of a controller. Checks do not need to test each step, because writes and reads have
// no effect after the stream has ended. After the end of the stream, Ack() returns an empty
// message. One thread may read while another thread writes.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <optional>
#include <string>

#include "svcmap/v1/control.grpc.pb.h"
#include "tests/protocol/objects.h"
#include "tests/protocol/target.h"
#include "tests/protocol/verdict.h"

namespace svcmap::protocol {

inline constexpr char kController[] = "svcmap-check";  // Default value of Open.name.

class Session {
 public:
  explicit Session(const Target& target);
  // Creates a stream on a new connection.
  explicit Session(std::unique_ptr<v1::Control::Stub> stub);
  ~Session();  // Cancels the stream.

  // Returns a valid Open. If `epoch` is 0, the Open contains the epoch of the target.
  static v1::PushRequest OpenRequest(const Target& target, const std::string& state_token = "");

  bool Write(const v1::PushRequest& request);
  // Reads the next response. Returns nullopt at the end of the stream.
  std::optional<v1::PushResponse> Read();

  // Sends Open and returns Opened, or an empty message if the stream ended.
  v1::Opened Open(const Target& target, const std::string& state_token = "");
  bool Begin();
  bool Batch(uint64_t number, const Changes& changes);
  bool End(uint64_t number);
  v1::Ack Ack();

  // Half-closes the stream, reads all responses, and returns the final status.
  grpc::Status HalfClose();
  // Reads until the agent ends the stream, and returns the final status.
  grpc::Status Finish();
  void Cancel() { context_.TryCancel(); }

 private:
  void Start();

  std::unique_ptr<v1::Control::Stub> own_;
  v1::Control::Stub& stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::PushRequest, v1::PushResponse>> stream_;
  std::optional<grpc::Status> status_;
};

// Opens a stream, sends a snapshot with these objects in one batch, and closes the stream. Returns
// the token of the last Ack.
std::string Replace(const Target& target, const Changes& objects, Verdict& verdict);

// Expects that the agent stores exactly `expected`. `when` describes the point in time in messages,
// for example "after the snapshot".
void ExpectStored(const Target& target, const State& expected, const std::string& when,
                  Verdict& verdict);

// Expects an Ack with this number and outcome.
void ExpectAck(const v1::Ack& ack, uint64_t number, v1::Outcome outcome, Verdict& verdict);

// Expects that other clients can still call the agent.
void ExpectAlive(const Target& target, const std::string& when, Verdict& verdict);

}  // namespace svcmap::protocol
