// Checks with repeated batch numbers and repeated objects.
#include "tests/protocol/checks.h"
#include "tests/protocol/session.h"

namespace svcmap::protocol {

void CheckReplays(const Target& target, Verdict& verdict) {
  const Changes base = {Put(Service("web", 1))};
  Replace(target, base, verdict);
  const struct {
    uint64_t number;
    bool end_of_snapshot;
  } cases[] = {{4, false}, {3, false}, {0, false}, {4, true}, {2, true}};
  for (const auto& c : cases) {
    Session session(target);
    session.Open(target);
    session.Begin();
    session.Batch(4, base);
    session.Ack();
    if (c.end_of_snapshot) {
      session.End(c.number);
    } else {
      session.Batch(c.number, {Put(Service("replayed", 2))});
    }
    verdict.Equal(
        "number " + std::to_string(c.number) + " after 4:",
        "INVALID_ARGUMENT: batch number " + std::to_string(c.number) + " does not follow 4",
        Text(session.HalfClose()));
    ExpectStored(target, StateOf(base), "after a replay", verdict);
  }
  Session zero(target);
  zero.Open(target);
  zero.Batch(0, {});
  verdict.Equal("number 0:", "INVALID_ARGUMENT: batch number 0 does not follow 0",
                Text(zero.HalfClose()));
}

void CheckDuplicates(const Target& target, Verdict& verdict) {
  const std::string token = Replace(target, {}, verdict);
  Session session(target);
  session.Open(target, token);
  session.Batch(1, {Put(Service("web", 1)), RemoveService("web"), Put(Service("web", 2)),
                    Put(Service("gone", 3)), RemoveService("gone")});
  const v1::Ack first = session.Ack();
  ExpectAck(first, 1, v1::COMMITTED, verdict);
  const State held = StateOf({Put(Service("web", 2))});
  ExpectStored(target, held, "after a batch with repeated objects", verdict);
  // If the same objects arrive with a different batch number, the agent writes nothing.
  v1::GetStatusResponse before, after;
  target.GetStatus(&before);
  session.Batch(2, {Put(Service("web", 1)), Put(Service("web", 2))});
  const v1::Ack again = session.Ack();
  ExpectAck(again, 2, v1::UNCHANGED, verdict);
  verdict.Equal("an unchanged revision", first.revision(), again.revision());
  verdict.That(!first.state_token().empty() && first.state_token() == again.state_token(),
               "an unchanged state_token", "a different token, or none");
  target.GetStatus(&after);
  verdict.Equal("unchanged elements_written", before.elements_written(), after.elements_written());
  ExpectStored(target, held, "after a repeated batch", verdict);
}

}  // namespace svcmap::protocol
