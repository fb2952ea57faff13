#include "tests/differential/judge.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/differential/differential_world.h"

namespace svcmap::testing {
namespace {

bool IsNodes(const std::string& ip) {
  const std::vector<std::string> own = DifferentialWorld::NodeAddresses();
  return std::find(own.begin(), own.end(), ip) != own.end();
}

std::string HostOf(const Choice& choice) {
  for (const EndpointHost& host : kEndpointHosts) {
    if (choice.ip == host.ip.in(IsV6(choice.ip))) return host.name;
  }
  return choice.ip;
}

// Returns the name of the server that answers at the endpoint.
std::string ServerAt(const Choice& choice) {
  const bool probed = std::find(std::begin(kProbedPorts), std::end(kProbedPorts), choice.port) !=
                      std::end(kProbedPorts);
  if (IsNodes(choice.ip) && probed) return kNodeProcess;
  return absl::StrCat(HostOf(choice), "/", choice.port);
}

// Returns true if the packet cannot reach the endpoint, or if the reply cannot reach the source. A
// host drops received packets with its own source address. Packets that never left the node are not
// affected. The other node cannot reach its own pods through this node, because replies take the
// direct path.
bool IsLost(const Packet& packet, const Choice& choice) {
  if (choice.masqueraded || IsNodes(choice.ip)) return false;
  if (choice.ip == packet.source) return true;
  const std::string host = HostOf(choice);
  return packet.source == kOnRemote.ip.in(IsV6(packet.source)) &&
         (host == kEndpointHosts[2].name || host == kEndpointHosts[3].name);
}

// Returns the source address that the endpoint sees. A packet to a process on the node traverses
// the postrouting hook only if the node also sent the packet.
std::string SeenSource(const Packet& packet, const Choice& choice) {
  if (!choice.masqueraded) return packet.source;
  if (IsNodes(choice.ip) && !packet.interface.empty()) return packet.source;
  return kNodePlaces[0].in(IsV6(packet.source));
}

bool Went(const Packet& packet, const Choice& choice, const Answer& answer) {
  if (IsLost(packet, choice)) return answer.outcome == Outcome::kTimedOut;
  return answer.outcome == Outcome::kAnswered && answer.server == ServerAt(choice) &&
         answer.seen_ip == SeenSource(packet, choice);
}

bool Untouched(const Packet& packet, const Answer& answer) {
  return answer.outcome == Outcome::kAnswered && answer.seen_ip == packet.source &&
         answer.server == (IsNodes(packet.destination) ? kNodeProcess : "outside");
}

}  // namespace

bool IsV6(const std::string& ip) { return ip.find(':') != std::string::npos; }

bool InVain(const TriedConnection& tried) {
  const std::vector<Choice>& choices = tried.prediction.choices;
  return tried.prediction.verdict == Verdict::kDropped ||
         std::any_of(choices.begin(), choices.end(),
                     [&](const Choice& choice) { return IsLost(tried.packet, choice); });
}

std::optional<Choice> TakenChoice(const TriedConnection& tried) {
  if (tried.answer.outcome != Outcome::kAnswered) return std::nullopt;
  for (const Choice& choice : tried.prediction.choices) {
    if (Went(tried.packet, choice, tried.answer)) return choice;
  }
  return std::nullopt;
}

std::optional<std::string> Judge(const TriedConnection& tried, AffinityMemory& affinity) {
  const Prediction& prediction = tried.prediction;
  const std::string& client = tried.packet.source;
  switch (prediction.verdict) {
    case Verdict::kRejected:
      if (tried.answer.RejectedByRules()) return std::nullopt;
      break;
    case Verdict::kDropped:
      if (tried.answer.outcome == Outcome::kTimedOut) return std::nullopt;
      break;
    case Verdict::kUntouched:
      if (Untouched(tried.packet, tried.answer)) return std::nullopt;
      break;
    case Verdict::kDelivered:
      // The order of concurrent connections is unknown, so the affinity record is deleted.
      if (InVain(tried)) affinity.Forget(client, prediction);
      for (const Choice& choice : affinity.Allowed(client, prediction)) {
        if (!Went(tried.packet, choice, tried.answer)) continue;
        if (!InVain(tried)) affinity.Remember(client, prediction, choice);
        return std::nullopt;
      }
      if (prediction.affinity || !prediction.pick.empty()) {
        std::string text = "by affinity or hash one of";
        for (const Choice& choice : affinity.Allowed(client, prediction)) {
          absl::StrAppend(&text, " ", choice.ip, " ", choice.port);
        }
        affinity.Forget(client, prediction);
        return absl::StrCat(prediction.ToString(), ", ", text);
      }
      break;
  }
  return prediction.ToString();
}

}  // namespace svcmap::testing
