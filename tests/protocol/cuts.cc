// Checks that end a stream at each message boundary, in several ways.
#include <fcntl.h>
#include <grpcpp/create_channel_posix.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/protocol/checks.h"
#include "tests/protocol/session.h"

namespace svcmap::protocol {
namespace {

struct Way {
  const char* name;
  // True if the controller reads all responses before the cut. The controller always reads Opened,
  // so that its Open cannot arrive after the Open of the next stream and replace the next stream.
  bool reads;
  enum { kHalfClose, kCancel, kConnection } cut;
};

constexpr Way kWays[] = {
    {"closed", false, Way::kHalfClose},
    {"cancelled, answers read", true, Way::kCancel},
    {"cancelled, answers unread", false, Way::kCancel},
    {"connection lost, answers read", true, Way::kConnection},
    {"connection lost, answers unread", false, Way::kConnection},
};

// Messages to send, and the expected stored objects after each message.
struct Script {
  std::vector<v1::PushRequest> messages;
  std::vector<State> held;
};

v1::PushRequest BatchOf(uint64_t number, const Changes& changes) {
  v1::PushRequest request;
  request.mutable_batch()->set_number(number);
  for (const v1::Change& change : changes) *request.mutable_batch()->add_changes() = change;
  return request;
}

Script MakeScript(const Target& target, const Changes& base) {
  const Changes first = {Put(Service("a", 11)), Put(Slice("a-1", "a", 1)), Put(Service("b", 12))};
  const Changes second = {Put(Service("c", 13))};
  const Changes third = {RemoveService("a"), Put(Service("d", 14))};
  v1::PushRequest begin, end;
  begin.mutable_snapshot_begin();
  end.mutable_snapshot_end()->set_number(3);
  const State all = StateOf(base);
  const State everything = After(StateOf(first), second);
  return {{Session::OpenRequest(target), begin, BatchOf(1, first), BatchOf(2, second), end,
           BatchOf(4, third)},
          {all, all, After(all, first), After(After(all, first), second), everything,
           After(everything, third)}};
}

// A connection without TLS whose socket can be shut down.
class Connection {
 public:
  explicit Connection(const Target& target) : fd_(target.ConnectSocket()) {
    const int for_grpc = dup(fd_);
    fcntl(for_grpc, F_SETFL, O_NONBLOCK);
    channel_ = grpc::CreateInsecureChannelFromFd("svcmap-check", for_grpc);
  }
  ~Connection() { close(fd_); }
  std::unique_ptr<v1::Control::Stub> stub() const { return v1::Control::NewStub(channel_); }
  void Break() const { shutdown(fd_, SHUT_RDWR); }

 private:
  int fd_;
  std::shared_ptr<grpc::Channel> channel_;
};

// Sends the first `count` messages of `script` and ends the stream. Returns the last received token
// and the objects that this token identifies.
struct Known {
  std::string token;
  State state;
};
Known SendAndCut(const Target& target, const Script& script, size_t count, const Way& way,
                 Known known, Verdict& verdict) {
  std::optional<Connection> connection;
  if (way.cut == Way::kConnection) connection.emplace(target);
  Session session(connection ? connection->stub() : v1::Control::NewStub(target.Connect()));
  for (size_t i = 0; i < count; ++i) {
    const v1::PushRequest& message = script.messages[i];
    session.Write(message);
    if (message.has_snapshot_begin() || (!way.reads && !message.has_open())) continue;
    const auto answer = session.Read();
    verdict.That(answer.has_value(), "a response to message " + std::to_string(i + 1), "none");
    if (!answer) break;
    const std::string& token =
        answer->has_opened() ? answer->opened().state_token() : answer->ack().state_token();
    if (!token.empty()) known = {token, script.held[i]};
  }
  switch (way.cut) {
    case Way::kHalfClose:
      verdict.Equal("the end of a stream that was closed:", "OK", Text(session.HalfClose()));
      break;
    case Way::kCancel:
      session.Cancel();
      break;
    case Way::kConnection:
      connection->Break();
      break;
  }
  return known;
}

}  // namespace

void CheckCuts(const Target& target, Verdict& verdict) {
  const Changes base = {Put(Service("old", 1)), Put(Service("a", 2))};
  const Script script = MakeScript(target, base);
  int cuts = 0;
  for (const Way& way : kWays) {
    if (way.cut == Way::kConnection && !target.options().ca.empty()) continue;
    for (size_t count = 1; count <= script.messages.size() && verdict.passed(); ++count) {
      const std::string token = Replace(target, base, verdict);
      const Known known = SendAndCut(target, script, count, way, {token, StateOf(base)}, verdict);
      // After the new Open, the agent ignores messages on the previous stream.
      Session resumed(target);
      const v1::Opened opened = resumed.Open(target, known.token);
      State held;
      target.List(&held);
      const std::string when = std::string(way.name) + " after message " + std::to_string(count);
      // The stored state is known exactly if the responses were read or the stream was closed
      // normally.
      const bool exact = way.reads || way.cut == Way::kHalfClose;
      bool possible = held == script.held[count - 1];
      for (size_t i = 0; i < count && !exact; ++i) possible = possible || held == script.held[i];
      verdict.That(possible,
                   when + (exact ? ": the changes sent until then" : ": a part of the changes") +
                       " to be stored",
                   Difference(script.held[count - 1], held));
      verdict.Equal(when + ": resume",
                    v1::Resume_Name(held == known.state ? v1::CONTINUE : v1::SEND_SNAPSHOT),
                    v1::Resume_Name(opened.resume()));
      if (opened.resume() == v1::CONTINUE) {
        resumed.Batch(1, {});
        verdict.That(!resumed.Ack().state_token().empty(), when + ": a state_token after resuming",
                     "none");
      }
      ++cuts;
    }
  }
  verdict.Note(std::to_string(cuts) + " cuts");
}

}  // namespace svcmap::protocol
