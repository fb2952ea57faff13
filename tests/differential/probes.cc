#include "tests/differential/probes.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/differential/judge.h"
#include "tests/differential/random_cluster.h"
#include "tests/support/builders.h"
#include "tests/support/chance.h"
#include "tests/support/client.h"
#include "tests/support/slow_machine.h"

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

}  // namespace svcmap::testing
