// Checks with messages above the size limit.
#include <algorithm>

#include "tests/protocol/checks.h"
#include "tests/protocol/session.h"

namespace svcmap::protocol {

void CheckLargeMessage(const Target& target, Verdict& verdict) {
  constexpr uint64_t kLarge = 64ull << 20;
  const Changes base = {Put(Service("web", 1))};
  Replace(target, base, verdict);
  Session session(v1::Control::NewStub(target.Connect()));
  const uint64_t limit = session.Open(target).limits().max_batch_bytes();
  const v1::Service large = Service("large", 2, std::string(std::max(kLarge, limit + 1), '.'));
  session.Batch(1, {Put(large)});
  verdict.Equal("a stream with a message of 64 MB to end with", "RESOURCE_EXHAUSTED",
                CodeName(session.Finish().error_code()));
  v1::Ack ack;
  verdict.Equal("Apply of 64 MB:", "RESOURCE_EXHAUSTED",
                CodeName(target.Apply(large, &ack).error_code()));
  ExpectStored(target, StateOf(base), "after a message of 64 MB", verdict);
  verdict.Equal("Apply of another object:", "OK", Text(target.Apply(Service("small", 3), &ack)));

  // The agent accepts a message with half the maximum size, or with the maximum number of changes.
  constexpr uint64_t kMaxChanges = 65536;
  Session fits(target);
  fits.Open(target);
  const uint64_t changes = limit / 2 / Put(Service("web", 1)).ByteSizeLong();
  fits.Batch(1, std::vector<v1::Change>(std::min(changes, kMaxChanges), Put(Service("web", 1))));
  ExpectAck(fits.Ack(), 1, v1::UNCHANGED, verdict);
}

}  // namespace svcmap::protocol
