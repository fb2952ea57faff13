// Checks with controllers that follow the protocol: alone, interrupted at each message, and in
// competition with each other.
#include <fcntl.h>
#include <grpcpp/create_channel_posix.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <thread>

#include "tests/protocol/checks.h"
#include "tests/protocol/session.h"

namespace svcmap::protocol {
namespace {

// Expects an Ack with a token and a revision. The revision must be greater than the previous
// revision if `grows` is true, and equal to the previous revision otherwise.
void ExpectRevision(const v1::Ack& ack, bool grows, uint64_t& revision, Verdict& verdict) {
  const std::string number = std::to_string(ack.number());
  verdict.That(
      grows ? ack.revision() > revision : ack.revision() == revision,
      "revision of Ack " + number + (grows ? " above " : " to stay ") + std::to_string(revision),
      std::to_string(ack.revision()));
  verdict.That(!ack.state_token().empty(), "a state_token in Ack " + number, "");
  revision = ack.revision();
}

}  // namespace

void CheckSnapshot(const Target& target, Verdict& verdict) {
  const Changes old = {Put(Service("old", 1)), Put(Slice("old-1", "old", 1)),
                       Put(Service("web", 2))};
  Replace(target, old, verdict);

  const Changes first = {Put(Service("web", 3)), Put(Slice("web-1", "web", 1))};
  const Changes second = {Put(Service("api", 4))};
  Session session(target);
  const v1::Opened opened = session.Open(target);
  verdict.That(!opened.node_name().empty(), "Opened with a node_name", opened.ShortDebugString());
  const v1::Limits& limits = opened.limits();
  verdict.That(limits.max_batch_bytes() > 0 && limits.max_batches_in_flight() > 0 &&
                   limits.max_objects() > 0 && limits.max_endpoints_per_service() > 0 &&
                   limits.max_streams() > 0,
               "Opened with all limits", limits.ShortDebugString());
  session.Begin();
  session.Batch(1, first);
  const v1::Ack inside = session.Ack();
  ExpectAck(inside, 1, v1::COMMITTED, verdict);
  verdict.That(inside.state_token().empty(), "no state_token inside a snapshot", "one");
  ExpectStored(target, After(StateOf(old), first), "inside the snapshot", verdict);
  session.Batch(2, second);
  session.End(7);  // Batch numbers may have gaps.
  ExpectAck(session.Ack(), 2, v1::COMMITTED, verdict);
  uint64_t revision = opened.revision();
  const v1::Ack end = session.Ack();
  ExpectAck(end, 7, v1::COMMITTED, verdict);
  ExpectRevision(end, /*grows=*/true, revision, verdict);
  const State held = After(StateOf(first), second);
  ExpectStored(target, held, "after the snapshot", verdict);

  // A repeated snapshot changes nothing, and an empty snapshot removes all objects.
  session.Begin();
  session.Batch(8, first);
  session.Batch(9, second);
  session.End(10);
  for (const uint64_t number : {8, 9}) ExpectAck(session.Ack(), number, v1::UNCHANGED, verdict);
  const v1::Ack again = session.Ack();
  ExpectAck(again, 10, v1::UNCHANGED, verdict);
  ExpectRevision(again, /*grows=*/false, revision, verdict);
  ExpectStored(target, held, "after the same snapshot", verdict);
  session.Begin();
  session.End(11);
  ExpectAck(session.Ack(), 11, v1::COMMITTED, verdict);
  ExpectStored(target, {}, "after an empty snapshot", verdict);
  verdict.Equal("the end of a stream that was closed to be", "OK", Text(session.HalfClose()));
}

void CheckBatches(const Target& target, Verdict& verdict) {
  const std::string token = Replace(target, {}, verdict);
  Session session(target);
  uint64_t revision = session.Open(target, token).revision();
  const Changes web = {Put(Service("web", 1)), Put(Slice("web-1", "web", 1))};
  session.Batch(1, web);
  v1::Ack ack = session.Ack();
  ExpectAck(ack, 1, v1::COMMITTED, verdict);
  ExpectRevision(ack, /*grows=*/true, revision, verdict);
  session.Batch(2, web);
  ack = session.Ack();
  ExpectAck(ack, 2, v1::UNCHANGED, verdict);
  ExpectRevision(ack, /*grows=*/false, revision, verdict);
  session.Batch(3, {});
  ExpectAck(session.Ack(), 3, v1::UNCHANGED, verdict);
  // Removing an object that is not stored is not an error.
  session.Batch(1000, {RemoveService("web"), RemoveService("never-seen")});
  ack = session.Ack();
  ExpectAck(ack, 1000, v1::COMMITTED, verdict);
  verdict.Equal("results of removing an object that is not stored:", 0, ack.results_size());
  ExpectRevision(ack, /*grows=*/true, revision, verdict);

  // Acks arrive in order even if many batches are in flight.
  constexpr uint64_t kLast = 1040;
  for (uint64_t number = 1001; number <= kLast; ++number) {
    session.Batch(number, {Put(Service("web", 2 + static_cast<int>(number % 2)))});
  }
  for (uint64_t number = 1001; number <= kLast; ++number) {
    ack = session.Ack();
    verdict.Equal("number of the next Ack:", number, ack.number());
    verdict.That(ack.revision() >= revision, "revisions that do not decrease",
                 std::to_string(ack.revision()) + " after " + std::to_string(revision));
    revision = ack.revision();
  }
  ExpectStored(target, StateOf({Put(Service("web", 2)), Put(Slice("web-1", "web", 1))}),
               "after the last batch", verdict);
}

void CheckEndpointDelta(const Target& target, Verdict& verdict) {
  v1::EndpointSlice slice = Slice("web-1", "web", 1);
  Replace(target, {Put(Service("web", 1)), Put(slice)}, verdict);
  Session session(target);
  session.Open(target);
  v1::Change change;
  v1::EndpointDelta& delta = *change.mutable_endpoint_delta();
  delta.set_namespace_(kNamespace);
  delta.set_name("web-1");
  delta.add_remove(slice.endpoints(0).addresses(0));
  *delta.add_upsert() = Slice("", "", 2).endpoints(0);
  session.Batch(1, {change});
  ExpectAck(session.Ack(), 1, v1::COMMITTED, verdict);
  ExpectStored(target, StateOf({Put(Service("web", 1)), Put(Slice("web-1", "web", 2))}),
               "after a delta", verdict);
  delta.set_name("never-seen");
  session.Batch(2, {change});
  const v1::Ack ack = session.Ack();
  ExpectAck(ack, 2, v1::UNCHANGED, verdict);
  verdict.Contains("the result of a delta for a slice that is not stored",
                   "the EndpointSlice is not stored; send the complete object before deltas",
                   ack.ShortDebugString());
}

void CheckResume(const Target& target, Verdict& verdict) {
  std::string last = Replace(target, {Put(Service("web", 1))}, verdict);
  // Opens a stream with `token` and returns the agent's Opened message.
  const auto answer = [&](const std::string& token) {
    Session session(target);
    return session.Open(target, token);
  };
  std::string older;
  {
    Session session(target);
    session.Open(target, last);
    session.Batch(1, {Put(Service("web", 2))});
    older = session.Ack().state_token();
    session.Batch(2, {Put(Service("api", 3))});
    last = session.Ack().state_token();
  }
  const auto expect = [&](const std::string& who, const std::string& token, v1::Resume resume) {
    verdict.Equal("resume after Open with " + who + ":", v1::Resume_Name(resume),
                  v1::Resume_Name(answer(token).resume()));
  };
  expect("no token", "", v1::SEND_SNAPSHOT);
  expect("an older token", older, v1::SEND_SNAPSHOT);
  expect("an invalid token", "no token", v1::SEND_SNAPSHOT);
  expect("the last token", last, v1::CONTINUE);
  verdict.Equal("Opened.state_token to be that of the last Ack:", true,
                answer(last).state_token() == last);
  {
    Session session(target);
    session.Open(target, last);
    session.Batch(1, {RemoveService("web")});
    const v1::Ack ack = session.Ack();
    ExpectAck(ack, 1, v1::COMMITTED, verdict);
    ExpectStored(target, StateOf({Put(Service("api", 3))}), "after resuming", verdict);
    last = ack.state_token();
    v1::Ack applied;
    target.Apply(Service("by-hand", 5), &applied);
    verdict.Equal("outcome of Apply:", v1::Outcome_Name(v1::COMMITTED),
                  v1::Outcome_Name(applied.outcome()));
    session.Batch(2, {Put(Service("web", 2))});
    verdict.That(session.Ack().state_token().empty(),
                 "no state_token after an Apply outside the stream", "one");
  }
  expect("the token from before an Apply", last, v1::SEND_SNAPSHOT);
}

// Checks that end a stream at each message boundary, in several ways.

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

// Checks with several controllers that compete for the agent.

namespace {

constexpr int kFightRounds = 200;
constexpr int kFightObjects = 3;

// Returns all objects that the fighter `who` sends in a round.
Changes Wanted(const std::string& who, int round) {
  Changes changes = {Put(Service(who, 1))};  // An object that only this fighter sends.
  for (int i = 0; i < kFightObjects; ++i) {
    changes.push_back(
        Put(Service("shared-" + std::to_string(i), 10 + i, who + std::to_string(round))));
  }
  return changes;
}

// One of two controllers that compete for the agent. A fighter sends a snapshot, and reconnects
// immediately whenever the other fighter replaces its stream. A fighter stops after kFightRounds
// replacements.
class Fighter {
 public:
  Fighter(const Target& target, std::string who) : target_(target), who_(std::move(who)) {}

  // Runs until the fighter stops, and sets `over`. The remaining fighter keeps its stream until
  // Stop() is called.
  void Run(std::atomic<bool>& over) {
    const auto channel = target_.Connect();
    for (int replaced = 0; replaced < kFightRounds && verdict_.passed(); ++replaced) {
      Session session(v1::Control::NewStub(channel));
      SetCurrent(&session);
      ++round_;
      session.Open(target_);
      session.Begin();
      session.Batch(1, Wanted(who_, round_));
      session.End(2);
      const grpc::Status status = session.Finish();
      SetCurrent(nullptr);
      if (over) return;
      verdict_.Equal("the stream that was replaced to end with",
                     std::string("ABORTED: replaced by ") + kController, Text(status));
    }
    gave_up_ = true;
    over = true;
    over.notify_all();
  }

  void Stop() {
    const std::lock_guard lock(mutex_);
    if (current_ != nullptr) current_->Cancel();
  }
  bool gave_up() const { return gave_up_; }
  State Wants() const { return StateOf(Wanted(who_, round_)); }
  const Verdict& verdict() const { return verdict_; }

 private:
  void SetCurrent(Session* session) {
    const std::lock_guard lock(mutex_);
    current_ = session;
  }

  const Target& target_;
  const std::string who_;
  std::atomic<int> round_ = 0;
  std::atomic<bool> gave_up_ = false;
  std::mutex mutex_;
  Session* current_ = nullptr;  // Current stream. Guarded by mutex_.
  Verdict verdict_;             // Results of this fighter. Only used by the thread of Run().
};

v1::PushRequest OpenOf(const std::string& name, const std::string& instance, uint64_t epoch) {
  v1::PushRequest request;
  request.mutable_open()->set_name(name);
  request.mutable_open()->set_instance(instance);
  request.mutable_open()->set_protocol_version(2);
  request.mutable_open()->set_epoch(epoch);
  return request;
}

// Expects that the agent rejects this Open because its epoch is too low.
void ExpectDeposed(const Target& target, const v1::PushRequest& request, const std::string& why,
                   Verdict& verdict) {
  Session session(target);
  session.Write(request);
  const std::string epoch = "open.epoch " + std::to_string(request.open().epoch());
  verdict.Equal(epoch + " of " + request.open().name() + ":",
                "FAILED_PRECONDITION: " + epoch + why +
                    "; stream rejected; use a higher epoch, or stop svcmapd and delete the file "
                    "objects.db in its --state-dir",
                Text(session.Finish()));
}

}  // namespace

void CheckFight(const Target& target, Verdict& verdict) {
  Fighter a(target, "a");
  Fighter b(target, "b");
  std::atomic<bool> over = false;
  std::thread thread_a([&] { a.Run(over); });
  std::thread thread_b([&] { b.Run(over); });
  over.wait(false);
  Fighter& winner = a.gave_up() ? b : a;
  // Waits for the last snapshot, because that snapshot may still be in flight.
  State held;
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  const auto still_fine = [&] { return a.verdict().passed() || b.verdict().passed(); };
  do {
    target.List(&held);
  } while (held != winner.Wants() && still_fine() && std::chrono::steady_clock::now() < deadline);
  winner.Stop();
  thread_a.join();
  thread_b.join();
  for (const Fighter* fighter : {&a, &b}) {
    if (!fighter->verdict().passed()) verdict = fighter->verdict();
  }
  verdict.That(held == winner.Wants(), "exactly the last snapshot to be stored",
               Difference(winner.Wants(), held));
  ExpectStored(target, winner.Wants(), "after the fight", verdict);
  verdict.Note("one controller was replaced " + std::to_string(kFightRounds) + " times");
}

void CheckFencing(const Target& target, Verdict& verdict) {
  const Changes base = {Put(Service("web", 1))};
  Replace(target, base, verdict);
  const uint64_t low = target.NextEpoch();
  const uint64_t high = target.NextEpoch();
  const auto deposed = OpenOf("svcmap-check-a", "one", low);
  const auto leader = OpenOf("svcmap-check-b", "two", high);
  const std::string lower =
      " is lower than " + std::to_string(high) + ", the epoch of leader svcmap-check-b (two)";
  {
    Session first(target);
    first.Write(deposed);
    verdict.That(first.Read().has_value(), "Opened for a higher epoch", "the end of the stream");
    Session second(target);
    second.Write(leader);
    verdict.That(second.Read().has_value(), "Opened for a higher epoch", "the end of the stream");
    verdict.Equal("the stream with the lower epoch to end with",
                  "ABORTED: replaced by svcmap-check-b (two)", Text(first.Finish()));
    ExpectDeposed(target, deposed, lower, verdict);
    ExpectDeposed(target, OpenOf("svcmap-check-a", "one", 0), lower, verdict);
    ExpectDeposed(target, OpenOf("svcmap-check-a", "one", high),
                  " belongs to leader svcmap-check-b (two)", verdict);
    // The rejected controllers have no effect on the leader.
    second.Batch(1, {Put(Service("api", 2))});
    ExpectAck(second.Ack(), 1, v1::COMMITTED, verdict);
    v1::GetStatusResponse status;
    target.GetStatus(&status);
    verdict.Equal("GetStatus.controller.name:", "svcmap-check-b", status.controller().name());
    verdict.Equal("GetStatus.controller.epoch:", high, status.controller().epoch());
  }
  // The agent keeps the epoch after the leader has disconnected. The leader can reconnect.
  ExpectDeposed(target, deposed, lower, verdict);
  Session again(target);
  again.Write(leader);
  verdict.That(again.Read().has_value(), "Opened for the same holder", "the end of the stream");
  ExpectStored(target, StateOf({Put(Service("web", 1)), Put(Service("api", 2))}), "at the end",
               verdict);
  target.NextEpoch();  // Later checks need a higher epoch than this check.
}

}  // namespace svcmap::protocol
