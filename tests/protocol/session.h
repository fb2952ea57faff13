// The stream of a controller. Checks do not need to test each step, because writes and reads have
// no effect after the stream has ended. After the end of the stream, Ack() returns an empty
// message. One thread may read while another thread writes.
#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "svcmap/v1/control.grpc.pb.h"
#include "svcmap/v1/control.pb.h"

namespace svcmap::protocol {

// Result of one check. Keeps the first mismatch and ignores later mismatches, so a check does not
// need to stop at a mismatch. Accepts all values that support operator<<. Not thread-safe.
class Verdict {
 public:
  // Expects that both values are equal. `what` describes the values, for example "Ack of batch 2:
  // outcome".
  template <typename Expected, typename Saw>
  void Equal(const std::string& what, const Expected& expected, const Saw& saw) {
    if (!(saw == expected)) Mismatch(what + " " + Text(expected), Text(saw));
  }
  // Expects that `saw` contains `part`.
  void Contains(const std::string& what, const std::string& part, const std::string& saw) {
    if (saw.find(part) == std::string::npos) Mismatch(what + " to contain \"" + part + "\"", saw);
  }
  // Expects that `holds` is true. Use That for expectations that the other methods do not support.
  void That(bool holds, const std::string& expected, const std::string& saw) {
    if (!holds) Mismatch(expected, saw);
  }

  // Adds a note to the output of a passed check.
  void Note(const std::string& note) { notes_ += (notes_.empty() ? "" : ", ") + note; }

  bool passed() const { return expected_.empty(); }
  const std::string& expected() const { return expected_; }
  const std::string& saw() const { return saw_; }
  const std::string& notes() const { return notes_; }

 private:
  template <typename T>
  static std::string Text(const T& value) {
    std::ostringstream text;
    text << value;
    return text.str();
  }
  void Mismatch(const std::string& expected, const std::string& saw) {
    if (!passed()) return;
    expected_ = expected;
    saw_ = saw.empty() ? "nothing" : saw;
  }

  std::string expected_;
  std::string saw_;
  std::string notes_;
};

// Small test objects in one namespace. The addresses are reserved for benchmarks (RFC 2544), so the
// objects do not conflict with addresses in use.
inline constexpr char kNamespace[] = "svcmap-check";

using Changes = std::vector<v1::Change>;
// All objects that an agent stores. The key is "service NAME" or "slice NAME", and the value is the
// serialized object.
using State = std::map<std::string, std::string>;

// Returns a Service with port 80 and cluster IP 198.18.0.`ip`. `note` is a host name, which makes
// versions of a Service different.
v1::Service Service(const std::string& name, int ip, const std::string& note = "");
// Returns a slice of Service `service` with the endpoint 198.19.0.`ip` and port 8080.
v1::EndpointSlice Slice(const std::string& name, const std::string& service, int ip);

v1::Change Put(v1::Service service);
v1::Change Put(v1::EndpointSlice slice);
v1::Change RemoveService(const std::string& name);

// Returns the state after `changes`, which must be upserts and removals.
State After(State state, const Changes& changes);
State StateOf(const Changes& changes);

// Returns a description of the state `s`, or of the differences between two states, by object
// names.
std::string Difference(const State& expected, const State& saw);

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

// Connection to the agent under test, and unary calls. All calls have a deadline, so checks end
// even if the agent does not answer. Thread-safe.
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
