// Implements `svcmapctl check`.
#include "api/cli/check.h"

#include <algorithm>
#include <map>
#include <ostream>
#include <random>
#include <set>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "api/check/probe.h"
#include "api/check/tracked_entries.h"
#include "api/cli/commands.h"
#include "api/cli/text.h"
#include "api/migration/iptables.h"
#include "api/migration/kube_proxy_process.h"
#include "api/migration/node_report.h"
#include "api/migration/program.h"
#include "nft/base/lock_sockets.h"

namespace svcmap::api {
namespace {

// Number of targets that are explained before connections to them are opened. A small portion keeps
// the time between the prediction and the connection short.
constexpr size_t kPortion = 64;
// Number of connections that are repeated one by one to find the connections that the reverse path
// filter drops.
constexpr size_t kMaxOneByOne = 20;

using EndpointKey = std::tuple<IpAddress, uint16_t, proxy::Protocol>;

EndpointKey KeyOf(const CheckTarget& target) {
  return {target.address, target.port, target.protocol};
}

absl::StatusOr<Place> OpenPlace(const CheckOptions& options) {
  if (!options.netns.empty()) return Place::Named(options.netns);
  if (options.pid != 0) return Place::OfProcess(options.pid);
  return Place::Own();
}

std::string PlaceText(const CheckOptions& options, const Place& place) {
  if (place.is_own()) return "the node";
  return options.pid != 0 ? absl::StrCat("the network namespace of process ", options.pid)
                          : absl::StrCat("network namespace ", options.netns);
}

void AddIptablesRules(const IptablesRead& iptables, std::vector<ForeignRule>& rules) {
  for (const IptablesRead::Found& found : iptables.found) {
    const std::string family = found.flavour.family == Family::kIpv4 ? "ip" : "ip6";
    for (const IptablesTable& table : found.save.tables) {
      const std::string place = absl::StrCat(found.flavour.ToString(), " ", table.name, " ");
      for (const IptablesChain& chain : table.chains) {
        if (chain.policy == "DROP") rules.push_back({family, place + chain.name, "policy drop"});
      }
      for (const IptablesRule& rule : table.rules) {
        if (!rule.drops()) continue;
        rules.push_back({family, place + rule.chain(), rule.text, rule.target() == "REJECT"});
      }
    }
  }
}

// Reads policies and rules without nft, which svcmap's image does not contain.
void ReadRulesWithoutNft(std::vector<ForeignRule>& rules, std::vector<std::string>& notes) {
  notes.push_back(
      "nft not found: only chain policies and iptables rules of other software were read");
  std::vector<nft::ForeignChain> chains;
  const absl::StatusOr<std::string> json = RunPreflight();
  const absl::StatusOr<NodeReport> report = json.ok() ? ParseNodeReport(*json) : json.status();
  if (report.ok()) {
    chains = report->chains;
  } else if (!absl::IsNotFound(report.status())) {
    notes.push_back("chains of other software: " + std::string(report.status().message()));
  }
  for (const nft::ForeignChain& chain : chains) {
    if (!chain.base || !chain.base->policy_drop || IsOfIptables(chain)) continue;
    rules.push_back({chain.family, absl::StrCat(chain.family, " ", chain.table, " ", chain.name),
                     "policy drop"});
  }
  const IptablesRead iptables = ReadIptables(chains, IsOfIptables);
  notes.insert(notes.end(), iptables.unread.begin(), iptables.unread.end());
  AddIptablesRules(iptables, rules);
}

// Reads the rules of other software in nf_tables and in the legacy backend of iptables.
std::vector<ForeignRule> ReadForeignRules(std::vector<std::string>& notes) {
  std::vector<ForeignRule> rules;
  const std::optional<std::string> program = FindProgram("nft");
  if (!program) {
    ReadRulesWithoutNft(rules, notes);
    return rules;
  }
  // -s omits counters, and -t omits the elements of sets and maps.
  const absl::StatusOr<std::string> listing =
      RunProgram({*program, "--stateless", "--terse", "list", "ruleset"});
  if (listing.ok()) {
    rules = ParseForeignRules(*listing);
  } else {
    notes.push_back("rules of other software in nf_tables: " +
                    std::string(listing.status().message()));
  }
  const IptablesRead legacy = ReadIptables({}, [](const nft::ForeignChain&) { return false; });
  notes.insert(notes.end(), legacy.unread.begin(), legacy.unread.end());
  AddIptablesRules(legacy, rules);
  return rules;
}

class Check {
 public:
  Check(const CheckOptions& options, const Place& place, Reader& reader)
      : options_(options), place_(place), reader_(reader) {
    report_.from = PlaceText(options, place);
  }

  absl::Status Run() {
    absl::Status status = ListTargets();
    for (size_t begin = 0; status.ok() && begin < targets_.size(); begin += kPortion) {
      const size_t end = std::min(targets_.size(), begin + kPortion);
      status = CheckPortion({targets_.begin() + static_cast<std::ptrdiff_t>(begin),
                             targets_.begin() + static_cast<std::ptrdiff_t>(end)});
    }
    if (status.ok()) status = Diagnose();
    if (status.ok()) CheckTrackedFlows();
    return status;
  }

  const CheckReport& report() const { return report_; }

 private:
  struct Case {
    CheckTarget target;
    bool is_endpoint = false;
    v1::ExplainResponse explained;  // Empty for an endpoint.
    std::vector<CheckTarget> endpoints;
    std::optional<IpAddress> source;
    ProbeResult result;
  };

  absl::Status ListTargets() {
    const absl::StatusOr<v1::GetStatusResponse> status = reader_.GetStatus();
    if (!status.ok()) return status.status();
    for (const v1::ObjectResult& finding : status->findings()) {
      const std::string& name_space = finding.namespace_();
      if (options_.name_space.empty() || name_space.empty() || name_space == options_.name_space) {
        report_.findings.push_back(OneLine(finding.message()));
      }
    }
    std::vector<IpAddress> node_addresses;
    absl::Status listed = reader_.ForEach(
        {v1::KIND_NODE, "", status->node_name()},
        [&](const v1::Object& object) { node_addresses = InternalAddresses(object.node()); });
    if (!listed.ok()) return listed;
    listed = reader_.ForEach(
        {v1::KIND_SERVICE, options_.name_space, ""},
        [&](const v1::Object& object) { AddTargets(object.service(), node_addresses, targets_); });
    if (!listed.ok()) return listed;
    if (options_.sample > 0) SampleTargets(options_.sample, std::random_device()(), targets_);
    return absl::OkStatus();
  }

  absl::StatusOr<v1::ExplainResponse> Explain(const CheckTarget& target, const std::string& from) {
    v1::ExplainRequest request = ExplainRequestFor(target);
    request.set_from(from);
    return reader_.Explain(request);
  }

  // Asks the agent for the prediction. Adds an omission if there is none.
  absl::StatusOr<bool> Predict(Case& one) {
    if (one.target.is_range) {
      report_.not_checked.push_back(
          {one.target, "port range: the ports on which its endpoints listen are unknown"});
      return false;
    }
    if (!one.source && !HasAddress(one.target.address.family())) {
      report_.not_checked.push_back(
          {one.target, absl::StrCat("no ", std::string(FamilyName(one.target.address.family())),
                                    " address in ", report_.from)});
      return false;
    }
    auto explained = Explain(one.target, place_.is_own() ? "node"
                                         : one.source    ? one.source->ToString()
                                                         : "");
    if (!explained.ok()) return explained.status();
    one.explained = *std::move(explained);
    one.endpoints.clear();
    bool handled = false;
    std::set<EndpointKey> seen;
    for (const v1::Explanation& explanation : one.explained.explanations()) {
      handled = handled || explanation.verdict() != v1::Explanation::UNTOUCHED;
      for (const v1::ExplainStep& step : explanation.steps()) {
        if (step.what() != "slices") continue;
        report_.without_slices.insert(
            OneLine(absl::StrCat("Service ", one.explained.service().namespace_(), "/",
                                 one.explained.service().name(), ": ", step.text())));
      }
      for (const v1::ExplainedEndpoint& endpoint : explanation.endpoints()) {
        CheckTarget to = one.target;
        to.role = "endpoint";
        to.address = *IpAddress::Parse(endpoint.address());
        to.port = static_cast<uint16_t>(endpoint.port());
        if (seen.insert(KeyOf(to)).second) one.endpoints.push_back(std::move(to));
      }
    }
    if (!handled) {
      report_.not_checked.push_back({one.target, "svcmap does not handle this address"});
    }
    return handled;
  }

  // Returns true if the namespace has an address of the family that can be the source of
  // connections.
  bool HasAddress(Family family) {
    std::optional<bool>& known = has_address_[Index(family)];
    if (known) return *known;
    bool found = false;
    const absl::Status status = place_.Run([&] {
      for (const auto& [address, length, interface] : InterfaceAddresses()) {
        found |= address.family() == family && !address.IsLoopback() && !address.IsLinkLocal();
      }
    });
    known = found && status.ok();
    return *known;
  }

  static bool AsPredicted(const Case& one) {
    if (one.is_endpoint) {
      return Matches(v1::Explanation::DNAT, one.target.protocol, one.result.observation);
    }
    const auto& explanations = one.explained.explanations();
    return std::any_of(explanations.begin(), explanations.end(), [&](const auto& explanation) {
      return Matches(explanation.verdict(), one.target.protocol, one.result.observation);
    });
  }

  absl::Status CheckPortion(const std::vector<CheckTarget>& targets) {
    const auto sources = SourceAddresses(place_, targets);
    if (!sources.ok()) return sources.status();
    std::vector<Case> cases;
    for (size_t i = 0; i < targets.size(); ++i) {
      Case one{.target = targets[i], .source = (*sources)[i]};
      const absl::StatusOr<bool> predicted = Predict(one);
      if (!predicted.ok()) return predicted.status();
      if (*predicted) cases.push_back(std::move(one));
    }
    const size_t addresses = cases.size();
    if (!options_.no_endpoints) AddEndpoints(cases);
    std::vector<CheckTarget> all;
    for (const Case& one : cases) all.push_back(one.target);
    const auto results = RunProbes(place_, all, options_.limits);
    if (!results.ok()) return results.status();
    for (size_t i = 0; i < cases.size(); ++i) {
      Case& one = cases[i];
      one.result = (*results)[i];
      if (one.is_endpoint) reached_[KeyOf(one.target)] = one.result;
      if (one.result.observation == Observation::kNotChecked) {
        report_.not_checked.push_back({one.target, one.result.detail});
        continue;
      }
      ++(i < addresses ? report_.addresses : report_.endpoints);
      if (!AsPredicted(one)) suspects_.push_back(std::move(one));
    }
    return absl::OkStatus();
  }

  // Adds each endpoint that has not been checked yet.
  void AddEndpoints(std::vector<Case>& cases) {
    std::vector<Case> endpoints;
    for (const Case& one : cases) {
      for (const CheckTarget& endpoint : one.endpoints) {
        if (!reached_.try_emplace(KeyOf(endpoint)).second) continue;
        endpoints.push_back({.target = endpoint, .is_endpoint = true, .source = one.source});
      }
    }
    for (Case& endpoint : endpoints) cases.push_back(std::move(endpoint));
  }

  // Repeats the connections with unexpected results, because objects may have changed between the
  // prediction and the connection. Keeps only connections that still have unexpected results.
  absl::Status RepeatSuspects() {
    std::vector<Case> predicted;
    std::vector<CheckTarget> targets;
    for (Case& one : suspects_) {
      const absl::StatusOr<bool> handled = one.is_endpoint ? true : Predict(one);
      if (!handled.ok()) return handled.status();
      if (!*handled) continue;
      targets.push_back(one.target);
      predicted.push_back(std::move(one));
    }
    suspects_.clear();
    const auto results = RunProbes(place_, targets, options_.limits);
    if (!results.ok()) return results.status();
    for (size_t i = 0; i < predicted.size(); ++i) {
      predicted[i].result = (*results)[i];
      if (!AsPredicted(predicted[i])) suspects_.push_back(std::move(predicted[i]));
    }
    return absl::OkStatus();
  }

  absl::Status Diagnose() {
    if (suspects_.empty()) return absl::OkStatus();
    const uint64_t before = RpFilterDrops();
    if (absl::Status repeated = RepeatSuspects(); !repeated.ok()) return repeated;
    const bool filtered = RpFilterDrops() != before;
    const std::vector<ForeignRule> rules = ReadForeignRules(report_.notes);
    for (size_t i = 0; i < suspects_.size(); ++i) {
      const Case& one = suspects_[i];
      Evidence evidence;
      evidence.target = one.target;
      evidence.result = one.result;
      evidence.kernel = one.explained.kernel();
      evidence.is_endpoint = one.is_endpoint;
      for (const CheckTarget& endpoint : one.endpoints) {
        const auto reached = reached_.find(KeyOf(endpoint));
        if (reached != reached_.end()) evidence.endpoints.push_back({endpoint, reached->second});
      }
      if (one.source) evidence.sources = {*one.source};
      if (filtered && i < kMaxOneByOne) {
        const uint64_t drops = RpFilterDrops();
        const auto results = RunProbes(place_, {one.target}, options_.limits);
        if (!results.ok()) return results.status();
        evidence.rp_filter_drops = RpFilterDrops() - drops;
        evidence.strict_interfaces = StrictInterfaces();
      }
      report_.differences.push_back(
          {one.target, one.is_endpoint ? "connection" : ExpectedText(one.explained.explanations(0)),
           ObservedText(one.result, options_.limits.timeout), LikelyCause(evidence, rules)});
    }
    return absl::OkStatus();
  }

  // Finds UDP flows to the checked addresses that are translated to other addresses than the
  // endpoints. Asks the agent only about addresses with flows.
  void CheckTrackedFlows() {
    std::map<nft::FlowEnd, std::vector<TrackedEntry>> flows;
    std::map<nft::FlowEnd, const CheckTarget*> udp;
    for (const CheckTarget& target : targets_) {
      if (target.protocol == proxy::Protocol::kUdp) udp[{target.address, target.port}] = &target;
    }
    if (udp.empty()) return;
    const absl::Status listed = ForEachTrackedEntry([&](const TrackedEntry& entry) {
      if (entry.protocol != proxy::Protocol::kUdp) return;
      if (udp.contains(entry.destination)) flows[entry.destination].push_back(entry);
    });
    if (!listed.ok()) {
      report_.notes.push_back("UDP flows were not checked: " + std::string(listed.message()));
      return;
    }
    for (const auto& [destination, entries] : flows) CheckFlows(*udp[destination], entries);
  }

  void CheckFlows(const CheckTarget& target, const std::vector<TrackedEntry>& entries) {
    const auto explained = Explain(target, "");  // All kinds of sources.
    if (!explained.ok()) return;
    std::set<std::pair<std::string, uint32_t>> endpoints;
    for (const v1::Explanation& explanation : explained->explanations()) {
      for (const v1::ExplainedEndpoint& endpoint : explanation.endpoints()) {
        endpoints.insert({endpoint.address(), endpoint.port()});
      }
    }
    if (endpoints.empty()) return;
    std::vector<TrackedEntry> wrong;
    for (const TrackedEntry& entry : entries) {
      const nft::FlowEnd& answers = entry.answers;
      if (!endpoints.contains({answers.address.ToString(), answers.port})) wrong.push_back(entry);
    }
    if (wrong.empty()) return;
    const TrackedEntry& first = wrong.front();
    CheckTarget client = target, answers = target;
    client.address = first.client.address;
    client.port = first.client.port;
    answers.address = first.answers.address;
    answers.port = first.answers.port;
    report_.differences.push_back(
        {target,
         absl::StrCat("flows to ", CountText(endpoints.size(), "endpoint")),
         absl::StrCat(CountText(wrong.size(), "flow"), " to other addresses"),
         {"conntrack-entry",
          absl::StrCat("the connection tracking entry of ", client.ToString(), " leads to ",
                       answers.ToString(),
                       ", which is not an endpoint; remedy: conntrack -D -p udp", " --orig-dst ",
                       target.address.ToString(), " --orig-port-dst ", target.port)}});
  }

  const CheckOptions& options_;
  const Place& place_;
  Reader& reader_;
  std::vector<CheckTarget> targets_;
  std::optional<bool> has_address_[2];  // By Index(Family).
  std::map<EndpointKey, ProbeResult> reached_;
  std::vector<Case> suspects_;
  CheckReport report_;
};

}  // namespace

absl::StatusOr<CheckReport> CheckServices(const CheckOptions& options, const Place& place,
                                          Reader& reader) {
  Check check(options, place, reader);
  if (const absl::Status status = check.Run(); !status.ok()) return status;
  return check.report();
}

std::string ReportPage(const CheckReport& report, const TerminalSize& screen) {
  if (screen.rows == 0) return ReportText(report);
  constexpr size_t kMaxShown = 5;
  std::string page;
  for (size_t shown = kMaxShown; shown > 0; --shown) {
    page = FitLines(ReportText(report, shown, shown), screen.columns);
    // The notes and the next prompt follow.
    const auto lines = static_cast<size_t>(std::ranges::count(page, '\n'));
    if (lines + report.notes.size() < screen.rows) return page;
  }
  return FitLines(ReportText(report, 1, 0), screen.columns);
}

std::string AgentElsewhere(const absl::StatusOr<std::vector<uint64_t>>& lock_sockets) {
  if (!lock_sockets.ok() || !lock_sockets->empty()) return "";
  return "no svcmapd runs in the network namespace of this process; run svcmapctl on the node, or "
         "with nsenter --net --target PID of svcmapd";
}

ExitCode RunCheck(const Options& all, Session& session) {
  const CheckOptions& options = all.check;
  if (const std::string elsewhere = AgentElsewhere(LockSockets()); !elsewhere.empty()) {
    return session.Refuse(
        absl::StrCat("check: ", elsewhere,
                     "; --netns and --pid select the namespace from which svcmapctl connects"));
  }
  const absl::StatusOr<Place> place = OpenPlace(options);
  // Fails here if this process may not enter the namespace.
  const absl::Status entered = place.ok() ? place->Run([] {}) : place.status();
  if (!entered.ok()) return session.Refuse(std::string(entered.message()));
  const absl::StatusOr<CheckReport> report = CheckServices(options, *place, session.reader);
  if (!report.ok()) return session.CallFailed(report.status());
  if (options.output == OutputFormat::kJson) {
    session.out << ReportJson(*report);
  } else {
    session.out << ReportPage(*report, session.screen);
  }
  for (const std::string& note : report->notes) session.Note(note);
  if (!report->differences.empty()) return ExitCode::kConnectionDiffers;
  if (report->addresses > 0 || report->endpoints > 0) return ExitCode::kOk;
  return session.Refuse(
      report->not_checked.empty()
          ? absl::StrCat("nothing was checked: the agent stores no Service with an address",
                         options.name_space.empty() ? "" : " in namespace ", options.name_space,
                         "; apply Services first")
          : "nothing was checked, for the reasons above");
}

}  // namespace svcmap::api
