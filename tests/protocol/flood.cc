// Check with a controller that writes without reading responses.
#include <algorithm>
#include <atomic>
#include <thread>

#include "tests/protocol/checks.h"
#include "tests/protocol/session.h"

namespace svcmap::protocol {
namespace {

using FloodClock = std::chrono::steady_clock;

// On an idle machine, about 5,000 batches are written before the writes block. On a busy one, it
// was more than 10,000.
constexpr uint64_t kBatches = 40'000;
// Bytes per batch. All batches together exceed the buffers of gRPC and the kernel.
constexpr size_t kBatchBytes = 1000;
constexpr std::chrono::milliseconds kStandsStill{500};
constexpr std::chrono::seconds kPatienceOfOthers{
    2};  // Maximum duration of one call, which normally takes milliseconds.

std::string Milliseconds(FloodClock::duration time) {
  return std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(time).count()) +
         " ms";
}

// Makes calls from another client until the writer has been blocked for kStandsStill. Returns the
// duration of the longest call.
FloodClock::duration CallUntilItStandsStill(const Target& target, const std::atomic<uint64_t>& sent,
                                            Verdict& verdict) {
  FloodClock::duration longest{0};
  uint64_t last = 0;
  auto since = FloodClock::now();
  const auto deadline = since + kPatience / 2;
  for (int i = 0; FloodClock::now() < deadline && FloodClock::now() - since < kStandsStill; ++i) {
    const auto started = FloodClock::now();
    v1::GetStatusResponse status;
    verdict.Equal("GetStatus meanwhile:", "OK", Text(target.GetStatus(&status)));
    const auto asked = FloodClock::now();
    v1::Ack ack;
    target.Apply(Service("other", 100 + i % 2), &ack);
    verdict.Equal("outcome of Apply meanwhile:", v1::Outcome_Name(v1::COMMITTED),
                  v1::Outcome_Name(ack.outcome()));
    longest = std::max({longest, asked - started, FloodClock::now() - asked});
    if (sent == last) continue;
    last = sent;
    since = FloodClock::now();
  }
  return longest;
}

}  // namespace

void CheckFlood(const Target& target, Verdict& verdict) {
  Replace(target, {}, verdict);
  Session session(v1::Control::NewStub(target.Connect()));
  const uint64_t in_flight = session.Open(target).limits().max_batches_in_flight();
  std::atomic<uint64_t> sent = 0;
  std::thread writer([&] {
    for (uint64_t number = 1; number <= kBatches; ++number) {
      const std::string note = std::to_string(number) + std::string(kBatchBytes, '.');
      if (!session.Batch(number, {Put(Service("web", 1 + static_cast<int>(number % 2), note))})) {
        return;
      }
      sent = number;
    }
  });
  const FloodClock::duration longest = CallUntilItStandsStill(target, sent, verdict);
  const uint64_t before = sent;
  verdict.That(before < kBatches, "writes that block without reading",
               "all " + std::to_string(kBatches) + " batches written");
  verdict.That(longest < kPatienceOfOthers, "each call of other clients to take less than 2 s",
               Milliseconds(longest));
  // Reading the responses unblocks the writer.
  uint64_t acked = 0;
  while (acked < kBatches) {
    const v1::Ack ack = session.Ack();
    verdict.That(ack.number() == acked + 1 &&
                     (ack.outcome() == v1::COMMITTED || ack.outcome() == v1::UNCHANGED),
                 "Ack{" + std::to_string(acked + 1) + ", COMMITTED or UNCHANGED}",
                 ack.ShortDebugString());
    if (!verdict.passed()) break;
    acked = ack.number();
  }
  if (acked < kBatches) session.Cancel();
  writer.join();
  verdict.Note("batches written before blocking: " + std::to_string(before) +
               ", in flight at most " + std::to_string(in_flight) +
               "; longest call of other clients: " + Milliseconds(longest));
}

}  // namespace svcmap::protocol
