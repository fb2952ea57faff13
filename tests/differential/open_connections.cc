#include "tests/differential/open_connections.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <sstream>
#include <utility>

#include "tests/differential/judge.h"
#include "tests/differential/model_service.h"
#include "tests/netns/service_world.h"
#include "tests/support/client.h"
#include "tests/support/slow_machine.h"

namespace svcmap::testing {
namespace {

constexpr size_t kConnections = 6;
// Timeout of a write that should hang. If the agent deletes a connection during a write, only the
// first retransmission is reset, after more than 200 ms. Other writes use kPatience.
constexpr std::chrono::milliseconds kHangs{200};

std::string ServiceOf(const Prediction& prediction) {
  return prediction.service_port.substr(0, prediction.service_port.find(':'));
}

enum class Fate { kContinues, kReset, kHangs };

const char* Text(Fate fate) {
  constexpr const char* kTexts[] = {"open connection continues", "open connection is reset",
                                    "open connection hangs"};
  return kTexts[static_cast<size_t>(fate)];
}

// Writes until a write fails, because the agent deletes stale connections with a delay.
absl::Status AwaitFailure(TcpFlow& flow, Fate fate) {
  const auto timeout = fate == Fate::kHangs ? kHangs : OnThisMachine(kPatience);
  absl::Status status;
  Eventually("a failed write", [&] {
    status = flow.Exchange(1, timeout);
    return !status.ok();
  }).IgnoreError();
  return status;
}

// Returns the result of the connection's next segment, which has no entry in connection tracking.
std::optional<Fate> FateWithoutEntry(const Packet& packet, const ReferenceModel& model) {
  const TriedConnection next{packet, model.Predict(packet), {}};
  switch (next.prediction.verdict) {
    case Verdict::kDropped:
      return Fate::kHangs;
    case Verdict::kRejected:
      return Fate::kReset;
    case Verdict::kDelivered:
      if (!InVain(next)) return Fate::kReset;
      break;
    case Verdict::kUntouched:
      break;
  }
  return std::nullopt;
}

}  // namespace

void OpenConnections::Open(const std::vector<Source>& sources, const ReferenceModel& model,
                           Dice& dice) {
  std::vector<Packet> destinations = Destinations();
  dice.Shuffle(destinations);
  for (const Packet& to : destinations) {
    const Source& source = dice.OneOf(sources);
    if (connections_.size() == kConnections) break;
    if (IsLoopback(source) || to.protocol != Protocol::kTcp) continue;
    TriedConnection tried{PacketFrom(source, to), {}, {}};
    tried.prediction = model.Predict(tried.packet);
    if (tried.prediction.verdict != Verdict::kDelivered || tried.prediction.affinity ||
        InVain(tried)) {
      continue;
    }
    auto flow = TcpFlow::Open(source.host->netns(), {.destination = tried.packet.destination,
                                                     .port = tried.packet.port,
                                                     .source = tried.packet.source});
    if (!flow.ok()) continue;  // The probes have compared new connections.
    tried.answer = flow->answer();
    const std::optional<Choice> choice = TakenChoice(tried);
    if (!choice) continue;
    ModelEndpoint endpoint;
    endpoint.ip = *TextAddress::Parse(choice->ip);
    endpoint.port = choice->port;
    connections_.push_back({tried.packet, ServiceOf(tried.prediction), endpoint.ToString(),
                            tried.prediction.range, *std::move(flow)});
  }
}

void OpenConnections::Follow(const Objects& objects, const ReferenceModel& model) {
  for (Connection& connection : connections_) {
    const v1::Service* service = FindService(objects, connection.service);
    const Prediction prediction = model.Predict(connection.packet);
    // The agent may not have compared the destination with those of other Services since they
    // changed, so the result for a hidden destination depends on the order of changes.
    if (service == nullptr || ServiceOf(prediction) != connection.service ||
        prediction.range != connection.range || model.HidesAnother(connection.packet)) {
      connection.predictable = false;
      continue;
    }
    connection.endpoint_gone =
        !connection.range &&
        !TcpEndpointsInSlices(objects, *service, IsV6(connection.packet.destination))
             .contains(connection.endpoint);
    connection.resets &= model.ResetsStaleTcp(*service);
  }
}

void OpenConnections::CheckAndClose(const ReferenceModel& model, ProbeReport& report) {
  // The first write that fails shows that the agent has deleted the stale connections, so the
  // connections that continue are last.
  std::stable_partition(connections_.begin(), connections_.end(), [](const Connection& connection) {
    return connection.endpoint_gone && connection.resets;
  });
  for (Connection& connection : connections_) {
    if (!connection.predictable) continue;
    const bool stale = connection.endpoint_gone && connection.resets;
    const std::optional<Fate> fate =
        stale ? FateWithoutEntry(connection.packet, model) : std::optional(Fate::kContinues);
    if (!fate) continue;
    const absl::Status status = stale ? AwaitFailure(connection.flow, *fate)
                                      : connection.flow.Exchange(1, OnThisMachine(kPatience));
    const bool expected = *fate == Fate::kContinues ? status.ok()
                          : *fate == Fate::kReset   ? absl::IsUnavailable(status)
                                                    : absl::IsDeadlineExceeded(status);
    ++report.count[Text(*fate)];
    if (expected) continue;
    std::ostringstream text;
    text << connection.packet << " to endpoint " << connection.endpoint
         << "\n    expected: " << Text(*fate) << "\n    saw: " << status;
    report.mismatches.push_back(text.str());
  }
  connections_.clear();
}

}  // namespace svcmap::testing
