#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/differential/differential_world.h"
#include "tests/differential/probes.h"
#include "tests/differential/random_cluster.h"
#include "tests/support/builders.h"
#include "tests/support/chance.h"
#include "tests/support/client.h"
#include "tests/support/environment.h"

namespace svcmap::testing {

namespace {

constexpr int kParallelInVain = 48;
constexpr size_t kDraws = 2;
constexpr size_t kNobodys = 60;  // Number of probes to addresses and ports that no Service owns.
// Probability that one of the endpoints of a set never answers by chance. A run examines fewer than
// 100,000 sets.
constexpr double kByChance = 1e-15;

Request RequestOf(const TriedConnection& probe) {
  return {.protocol = probe.packet.protocol,
          .destination = probe.packet.destination,
          .port = probe.packet.port,
          .source = probe.packet.source,
          .timeout = InVain(probe) ? kInVain : OnThisMachine(kPatience)};
}

// Sends the probes. Probes without an expected answer are sent last and in parallel, because each
// of these probes waits for its timeout. The ICMP error for an SCTP probe also reaches all raw
// sockets that are connected to the same address.
void Send(const NetNs& netns, const std::vector<TriedConnection*>& probes) {
  for (const bool in_vain : {false, true}) {
    std::vector<TriedConnection*> some;
    std::vector<Request> requests;
    for (TriedConnection* probe : probes) {
      if (InVain(*probe) != in_vain) continue;
      some.push_back(probe);
      requests.push_back(RequestOf(*probe));
    }
    const std::vector<Answer> answers = AskAll(netns, requests, in_vain ? kParallelInVain : 1);
    for (size_t i = 0; i < some.size(); ++i) some[i]->answer = answers[i];
  }
}

std::vector<TriedConnection> Plan(const std::vector<Source>& sources, const ReferenceModel& model,
                                  Dice& dice) {
  std::vector<TriedConnection> plan;
  std::vector<Packet> nobodys;
  for (const Packet& to : Destinations()) {
    // The model predicts the owner for the first source only, because the owner of a destination
    // does not depend on the source.
    if (model.Predict(PacketFrom(sources[0], to)).service_port.empty()) {
      nobodys.push_back(to);
      continue;
    }
    for (const Source& source : sources) {
      if (IsLoopback(source)) continue;
      const Packet packet = PacketFrom(source, to);
      const Prediction prediction = model.Predict(packet);
      const bool positive = prediction.verdict == Verdict::kDelivered;
      plan.insert(plan.end(), positive ? kDraws : 1, {packet, prediction, {}});
    }
  }
  for (size_t i = 0; i < kNobodys; ++i) {
    const Source& source = dice.OneOf(sources);
    Packet to = dice.OneOf(nobodys);
    if (IsLoopback(source)) to.destination = kLoopback.in(IsV6(to.destination));
    const Packet packet = PacketFrom(source, to);
    plan.push_back({packet, model.Predict(packet), {}});
  }
  dice.Shuffle(plan);
  return plan;
}

// Opens connections and records their results.
class Session {
 public:
  Session(const std::vector<Source>& sources, AffinityMemory& affinity) : affinity_(affinity) {
    for (const Source& source : sources) {
      host_of_[source.address.v4] = host_of_[source.address.v6] = source.host;
    }
  }

  void Try(std::vector<TriedConnection>& plan) {
    std::map<const Host*, std::vector<TriedConnection*>> by_host;
    for (TriedConnection& tried : plan) by_host[host_of_[tried.packet.source]].push_back(&tried);
    std::vector<std::thread> threads;
    for (const auto& entry : by_host) {
      threads.emplace_back([&entry] { Send(entry.first->netns(), entry.second); });
    }
    for (std::thread& thread : threads) thread.join();
    for (const auto& [host, all] : by_host) {
      // Judges the probes without an expected answer last, because these probes were sent last.
      for (const bool in_vain : {false, true}) {
        for (const TriedConnection* tried : all) {
          if (InVain(*tried) == in_vain) Take(*tried);
        }
      }
    }
  }

  // Repeats connections until each endpoint of a set has answered, or until the absence of an
  // endpoint's answer is too improbable. Sets with affinity or hash tables are excluded, because
  // there are too few clients.
  void LookForTheMissing() {
    for (auto& [name, set] : sets_) {
      const auto choices = static_cast<int>(set.example.prediction.choices.size());
      const double rarest = 1.0 / (static_cast<int>(kMaxRandomWeight) * choices);
      for (int tries = TriesToReachAll(choices, rarest, kByChance);
           tries > 0 && set.seen.size() < set.example.prediction.choices.size();) {
        const int some = std::min(tries, 4 * choices);
        std::vector<TriedConnection> more(static_cast<size_t>(some), set.example);
        Try(more);
        tries -= some;
      }
      for (const Choice& choice : set.example.prediction.choices) {
        if (set.seen.count({choice.ip, choice.port}) > 0) continue;
        std::ostringstream text;
        text << set.example.packet << "\n    expected " << set.example.prediction.ToString()
             << "\n    never saw " << choice.ip << " " << choice.port;
        report_.mismatches.push_back(text.str());
      }
    }
  }

  ProbeReport report() { return std::move(report_); }

 private:
  // Endpoints of one predicted set that have answered.
  struct Set {
    TriedConnection example;
    std::set<std::pair<std::string, uint16_t>> seen;
  };

  void Take(const TriedConnection& tried) {
    ++report_.count[tried.prediction.why];
    if (const std::optional<std::string> expected = Judge(tried, affinity_)) {
      std::ostringstream text;
      text << tried.packet << "\n    expected " << *expected << "\n    saw " << tried.answer;
      report_.mismatches.push_back(text.str());
    }
    if (tried.prediction.affinity || !tried.prediction.pick.empty() || InVain(tried)) return;
    const std::optional<Choice> taken = TakenChoice(tried);
    if (!taken) return;
    std::string name = tried.prediction.service_port;
    for (const Choice& choice : tried.prediction.choices) {
      name += " " + choice.ip + " " + std::to_string(choice.port);
    }
    Set& set = sets_.try_emplace(name, Set{tried, {}}).first->second;
    set.seen.insert({taken->ip, taken->port});
  }

  AffinityMemory& affinity_;
  std::map<std::string, const Host*> host_of_;  // Hosts by source address.
  std::map<std::string, Set> sets_;
  ProbeReport report_;
};

constexpr int kExplanations = 40;  // Number of random connections for each state of a scenario.

v1::Explanation::Verdict ToProto(Verdict verdict) {
  switch (verdict) {
    case Verdict::kDelivered:
      return v1::Explanation::DNAT;
    case Verdict::kRejected:
      return v1::Explanation::REJECT;
    case Verdict::kDropped:
      return v1::Explanation::DROP;
    case Verdict::kUntouched:
      return v1::Explanation::UNTOUCHED;
  }
  return v1::Explanation::VERDICT_UNSPECIFIED;
}

// Returns true if the explanation has the predicted verdict and endpoints.
bool IsAsPredicted(const v1::ExplainResponse& response, const Prediction& prediction) {
  if (response.explanations_size() != 1) return false;
  const v1::Explanation& explanation = response.explanations(0);
  std::vector<Choice> choices;
  for (const v1::ExplainedEndpoint& endpoint : explanation.endpoints()) {
    choices.push_back(
        {endpoint.address(), static_cast<uint16_t>(endpoint.port()), endpoint.masquerade()});
  }
  std::vector<Choice> predicted = prediction.choices;
  std::sort(choices.begin(), choices.end());
  std::sort(predicted.begin(), predicted.end());
  return explanation.verdict() == ToProto(prediction.verdict) && choices == predicted;
}

constexpr int kPings = 12;  // Number of random requests for each state of a scenario.
// Maximum number of requests without an expected answer, because the test waits for each of them.
constexpr int kPingsInVain = 1;

bool IsExpected(Outcome expected, const Answer& answer) {
  if (expected == Outcome::kRejected && !answer.PortUnreachable()) return false;
  return answer.outcome == expected;
}

}  // namespace

std::vector<Packet> Destinations() {
  std::vector<Place> places(std::begin(kClusterIps), std::end(kClusterIps));
  places.insert(places.end(), std::begin(kExternalIps), std::end(kExternalIps));
  places.insert(places.end(), std::begin(kLoadBalancerIps), std::end(kLoadBalancerIps));
  places.insert(places.end(), std::begin(kNodePlaces), std::end(kNodePlaces));
  std::vector<Packet> packets;
  for (const Place& place : places) {
    for (const uint16_t port : kProbedPorts) {
      for (const Protocol protocol : kProtocols) {
        packets.push_back({"", "", protocol, place.v4, port});
        packets.push_back({"", "", protocol, place.v6, port});
      }
    }
  }
  return packets;
}

Packet PacketFrom(const Source& source, const Packet& to) {
  Packet packet = to;
  packet.source = source.address.in(IsV6(to.destination));
  packet.interface = source.interface;
  return packet;
}

bool IsLoopback(const Source& source) { return std::string(source.address.v4) == kLoopback.v4; }

ProbeReport Probe(const std::vector<Source>& sources, const ReferenceModel& model, Dice& dice,
                  AffinityMemory& affinity) {
  std::vector<TriedConnection> plan = Plan(sources, model, dice);
  Session session(sources, affinity);
  session.Try(plan);
  session.LookForTheMissing();
  return session.report();
}

void CompareExplanations(Agent& agent, const std::vector<Source>& sources,
                         const ReferenceModel& model, Dice& dice, ProbeReport& report) {
  const std::vector<Packet> destinations = Destinations();
  for (int i = 0; i < kExplanations; ++i) {
    const Source& source = dice.OneOf(sources);
    const Packet& to = dice.OneOf(destinations);
    if (IsLoopback(source)) continue;
    const Packet packet = PacketFrom(source, to);
    const Prediction prediction = model.Predict(packet);
    v1::ExplainRequest request;
    request.set_address(packet.destination);
    request.set_port(packet.port);
    request.set_protocol(ApiName(packet.protocol));
    request.set_from(packet.source);
    request.set_in_interface(packet.interface);
    const absl::StatusOr<v1::ExplainResponse> response = agent.Explain(request);
    ++report.count[absl::StrCat("explained ", prediction.why)];
    if (response.ok() && IsAsPredicted(*response, prediction)) continue;
    std::ostringstream text;
    text << "explain " << packet << "\n    expected " << prediction.ToString() << "\n    saw ";
    response.ok() ? text << response->ShortDebugString() : text << response.status();
    report.mismatches.push_back(text.str());
  }
}

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

namespace {

constexpr char kByClient[] = "ClientIP";

std::string TextOf(const Choice& choice) {
  const bool v6 = choice.ip.find(':') != std::string::npos;
  return (v6 ? "[" + choice.ip + "]" : choice.ip) + ":" + std::to_string(choice.port);
}

// Returns the endpoint in the format of ReferenceModel::AffineEndpoints. All ports of a port range
// share a record.
std::string RecordOf(const Prediction& prediction, Choice choice) {
  if (prediction.range) choice.port = 0;
  return TextOf(choice);
}

}  // namespace

std::vector<Choice> AffinityMemory::Allowed(const std::string& client,
                                            const Prediction& prediction) const {
  if (!prediction.affinity && prediction.pick != kByClient) return prediction.choices;
  const Records& records = prediction.affinity ? records_ : picks_;
  const auto found =
      records.find({client, prediction.affinity ? prediction.service_port : prediction.table});
  if (found == records.end()) return prediction.choices;
  for (const Choice& choice : prediction.choices) {
    const std::string text = prediction.affinity ? RecordOf(prediction, choice) : TextOf(choice);
    if (text == found->second) return {choice};
  }
  return prediction.choices;
}

void AffinityMemory::Remember(const std::string& client, const Prediction& prediction,
                              const Choice& choice) {
  if (prediction.affinity) {
    records_[{client, prediction.service_port}] = RecordOf(prediction, choice);
  }
  if (prediction.pick == kByClient) picks_[{client, prediction.table}] = TextOf(choice);
}

void AffinityMemory::Forget(const std::string& client, const Prediction& prediction) {
  records_.erase({client, prediction.service_port});
}

void AffinityMemory::Keep(const std::map<std::string, std::set<std::string>>& reachable) {
  for (auto record = records_.begin(); record != records_.end();) {
    const auto found = reachable.find(record->first.second);
    const bool stays = found != reachable.end() && found->second.count(record->second) > 0;
    record = stays ? std::next(record) : records_.erase(record);
  }
}

}  // namespace svcmap::testing
