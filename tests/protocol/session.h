// A controller's stream, one message at a time. After the stream's end writes and reads do nothing
// and an Ack is an empty one, so that checks need not look at each step. Reads and writes may be on
// two threads.
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

inline constexpr char kController[] = "svcmap-check";  // Open.name of all but where it matters.

class Session {
 public:
  explicit Session(const Target& target);
  // Over a connection of its own.
  explicit Session(std::unique_ptr<v1::Control::Stub> stub);
  ~Session();  // Cancels it.

  // A good Open; `epoch` 0: that of the target.
  static v1::PushRequest OpenRequest(const Target& target, const std::string& state_token = "");

  bool Write(const v1::PushRequest& request);
  // Nothing: the stream has ended.
  std::optional<v1::PushResponse> Read();

  // Opens it and waits for Opened; an empty one if that was refused.
  v1::Opened Open(const Target& target, const std::string& state_token = "");
  bool Begin();
  bool Batch(uint64_t number, const Changes& changes);
  bool End(uint64_t number);
  v1::Ack Ack();

  // Says no more, reads what is still to come, and returns how the stream ended.
  grpc::Status HalfClose();
  // The same where the agent ends it.
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

// Opens a stream, sends these objects as everything there is, in one batch, and closes it. The
// token of its end.
std::string Replace(const Target& target, const Changes& objects, Verdict& verdict);

// The agent holds exactly `expected`. `when`: "after the snapshot"
void ExpectHeld(const Target& target, const State& expected, const std::string& when,
                Verdict& verdict);

// The Ack of `number`, with that outcome.
void ExpectAck(const v1::Ack& ack, uint64_t number, v1::Outcome outcome, Verdict& verdict);

// The agent serves others.
void ExpectAlive(const Target& target, const std::string& when, Verdict& verdict);

}  // namespace svcmap::protocol
