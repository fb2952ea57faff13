#include "tests/differential/pings.h"

#include <sstream>
#include <vector>

#include "tests/differential/judge.h"
#include "tests/support/client.h"
#include "tests/support/slow_machine.h"

namespace svcmap::testing {
namespace {

constexpr int kPings = 12;  // Number of random requests for each state of a scenario.
// Maximum number of requests without an expected answer, because the test waits for each of them.
constexpr int kPingsInVain = 1;

bool IsExpected(Outcome expected, const Answer& answer) {
  if (expected == Outcome::kRejected && !answer.PortUnreachable()) return false;
  return answer.outcome == expected;
}

}  // namespace

void Ping(const std::vector<Source>& sources, const ReferenceModel& model, Dice& dice,
          ProbeReport& report) {
  const std::vector<Packet> destinations = Destinations();
  int in_vain = 0;
  for (int i = 0; i < kPings; ++i) {
    const Source& source = dice.OneOf(sources);
    const Packet& to = dice.OneOf(destinations);
    if (IsLoopback(source)) continue;
    const Packet packet = PacketFrom(source, to);
    const Outcome expected = model.PredictPing(packet);
    const bool silent = expected == Outcome::kTimedOut;
    if (silent && ++in_vain > kPingsInVain) continue;
    const Answer answer =
        Ping(source.host->netns(), {.destination = packet.destination,
                                    .source = packet.source,
                                    .timeout = silent ? kInVain : OnThisMachine(kPatience)});
    std::ostringstream result;
    result << "ping " << expected;
    ++report.count[result.str()];
    if (IsExpected(expected, answer)) continue;
    std::ostringstream text;
    text << "ping " << packet.source << " -> " << packet.destination << "\n    expected "
         << expected << "\n    saw " << answer;
    report.mismatches.push_back(text.str());
  }
}

}  // namespace svcmap::testing
