// Checks with several controllers that compete for the agent.
#include <atomic>
#include <mutex>
#include <thread>

#include "tests/protocol/checks.h"
#include "tests/protocol/session.h"

namespace svcmap::protocol {
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
