// Checks with a controller that follows the protocol.
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

}  // namespace svcmap::protocol
