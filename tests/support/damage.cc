#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "tests/support/damage.h"
#include "tests/support/kernel_check.h"
#include "tests/support/raw_nft.h"

namespace svcmap::testing {

namespace {

using Script = absl::StatusOr<std::string>;

// Builds a script that deletes the rule in `chain` of table ip svcmap whose text contains `part`.
Script DeleteRule(const NetNs& netns, const std::string& chain, const std::string& part) {
  const absl::StatusOr<std::string> listing = Nft(netns, "-a list chain ip svcmap " + chain);
  if (!listing.ok()) return listing;
  for (const auto& piece : absl::StrSplit(*listing, '\n')) {
    const std::string line(piece);
    const size_t handle = line.find(" # handle ");
    if (line.rfind("\t\t", 0) != 0 || handle == std::string::npos || line.find(part) > handle) {
      continue;
    }
    return absl::StrCat("delete rule ip svcmap ", chain, line.substr(handle + 2), "\n");
  }
  return absl::NotFoundError(absl::StrCat("no rule with '", part, "' in\n", *listing));
}

// Returns the key of a listed element without comment and data, in the notation of nft commands,
// for example "10.96.0.10 . tcp . 80".
std::string KeyOf(const std::string& element) {
  return element.substr(0, std::min(element.find(" comment "), element.find(" : ")));
}

// Builds a script that deletes the first `count` endpoint elements whose addresses do not belong to
// real pods (10.244.1.* and 10.244.2.*).
Script DeleteUnownedEndpoints(const NetNs& netns, size_t count) {
  const absl::StatusOr<Listing> listing = ReadListing(netns);
  if (!listing.ok()) return listing.status();
  std::vector<std::string> keys;
  const auto endpoints = listing->elements.find("ip svcmap endpoints");
  if (endpoints != listing->elements.end()) {
    for (const std::string& element : endpoints->second) {
      if (element.find(" : 10.244.1.") != std::string::npos) continue;
      if (element.find(" : 10.244.2.") != std::string::npos) continue;
      if (keys.size() < count) keys.push_back(KeyOf(element));
    }
  }
  if (keys.empty()) return "";
  return absl::StrCat("delete element ip svcmap endpoints { ", absl::StrJoin(keys, ", "), " }\n");
}

std::string ServiceKeys(const std::string& ip) {
  return absl::StrCat("{ ", ip, " . tcp . 80, ", ip, " . udp . 80 }");
}

// Builds a script that changes the elements of the victim's addresses to the descriptors of the
// other Service.
Script RedirectVictim(const NetNs& netns) {
  const absl::StatusOr<Listing> listing = ReadListing(netns);
  if (!listing.ok()) return listing.status();
  std::string script =
      absl::StrCat("delete element ip svcmap service-ips ", ServiceKeys(kVictim), "\n");
  const auto services = listing->elements.find("ip svcmap service-ips");
  if (services == listing->elements.end()) return absl::NotFoundError("no element of service-ips");
  for (const std::string& element : services->second) {
    for (const char* protocol : {"tcp", "udp"}) {
      if (KeyOf(element) != absl::StrCat(kOtherService, " . ", protocol, " . 80")) continue;
      absl::StrAppend(&script, "add element ip svcmap service-ips { ", kVictim, " . ", protocol,
                      " . 80", element.substr(element.find(" : ")), " }\n");
    }
  }
  return script;
}

}  // namespace

const std::vector<Damage>& AllDamage() {
  static const std::vector<Damage> all = {
      {"FlushedRuleset", true, false, [](const NetNs&) -> Script { return "flush ruleset\n"; }},
      {"DeletedTable", true, false,
       [](const NetNs&) -> Script { return "delete table ip svcmap\n"; }},
      {"DeletedBaseChain", true, true,
       [](const NetNs&) -> Script {
         return "flush chain ip svcmap nat-prerouting\ndelete chain ip svcmap nat-prerouting\n";
       }},
      {"DeletedFilterChain", false, true,
       [](const NetNs&) -> Script {
         return "flush chain ip svcmap filter-output\ndelete chain ip svcmap filter-output\n";
       }},
      {"FlushedChain", true, true,
       [](const NetNs&) -> Script { return "flush chain ip svcmap dispatch\n"; }},
      {"DeletedRule", true, true,
       [](const NetNs& netns) { return DeleteRule(netns, "services", "goto dispatch"); }},
      {"DeletedFilterRule", false, true,
       [](const NetNs& netns) { return DeleteRule(netns, "cluster-ips-check", " drop"); }},
      {"DeletedThousandElements", true, true,
       [](const NetNs& netns) {
         Script script = DeleteUnownedEndpoints(netns, 998);
         if (script.ok()) {
           absl::StrAppend(&*script, "delete element ip svcmap service-ips ", ServiceKeys(kVictim),
                           "\n");
         }
         return script;
       }},
      {"DeletedElementsOfOthers", false, true,
       [](const NetNs& netns) { return DeleteUnownedEndpoints(netns, 1000); }},
      {"DeletedMarker", false, true,
       [](const NetNs&) -> Script { return "flush map ip svcmap marker\n"; }},
      {"AddedElements", false, true,
       [](const NetNs&) -> Script {
         return "add element ip svcmap cluster-ips { 10.96.77.77 }\n"
                "add element ip svcmap service-cidrs { 10.97.0.0/16 }\n"
                "add element ip svcmap no-endpoint-services { 10.96.77.77 . tcp . 80 }\n"
                "add element ip6 svcmap cluster-ips { fd00:96::7777 }\n";
       }},
      // Since Linux 5.13.
      {"AddedElementForAllOtherKeys", true, true,
       [](const NetNs&) -> Script {
         return "add element ip svcmap cluster-ips { * }\nadd element ip6 svcmap cluster-ips { * "
                "}\n";
       }},
      {"RejectingElement", true, true,
       [](const NetNs&) -> Script {
         return absl::StrCat("add element ip svcmap firewall-ips ", ServiceKeys(kVictim), "\n");
       }},
      {"RedirectingElements", true, true, RedirectVictim},
      {"AddedDrop", true, true,
       [](const NetNs&) -> Script { return "insert rule ip svcmap services drop\n"; }},
      {"AddedRule", false, true,
       [](const NetNs&) -> Script { return "add rule ip svcmap filter-forward counter\n"; }},
      {"AddedBaseChain", true, true,
       [](const NetNs&) -> Script {
         return "add chain ip svcmap foreign { type filter hook forward priority -300; policy "
                "drop; "
                "}\n";
       }},
      {"AddedSet", false, true,
       [](const NetNs&) -> Script {
         return "add set ip svcmap foreign { type ipv4_addr; elements = { 192.0.2.1 }; }\n";
       }},
      {"ChangedPolicy", true, true,
       [](const NetNs&) -> Script { return "chain ip svcmap filter-forward { policy drop; }\n"; }},
      {"DormantTable", true, false,  // Only deleting the table removes the dormant flag.
       [](const NetNs&) -> Script { return "add table ip svcmap { flags dormant; }\n"; }},
      {"FlushedSet", true, true,
       [](const NetNs&) -> Script { return "flush map ip svcmap service-ips\n"; }},
      {"FlushedSetOfRanges", false, true,
       [](const NetNs&) -> Script { return "flush set ip svcmap pod-sources\n"; }},
  };
  return all;
}

const Damage* FindDamage(const std::string& name) {
  const auto found = std::find_if(AllDamage().begin(), AllDamage().end(),
                                  [&](const Damage& damage) { return damage.name == name; });
  return found == AllDamage().end() ? nullptr : &*found;
}

namespace {

using Clock = std::chrono::steady_clock;
using nft::Field;

constexpr nft::SetRef kServiceIps = {Family::kIpv4, 0};
constexpr nft::SetRef kClusterIps = {Family::kIpv4, 1};
// Every 50th change adds a rule.
constexpr uint64_t kRuleEvery = 50;

// Returns the parts of svcmapd's tables that are needed to write elements.
nft::TableSpecs Tables() {
  nft::TableSpecs tables(2);
  for (const Family family : {Family::kIpv4, Family::kIpv6}) {
    tables[Index(family)].family = family;
    tables[Index(family)].name = "svcmap";
  }
  std::vector<nft::SetSpec>& sets = tables[0].sets;
  sets.resize(2);
  sets[kServiceIps.set].name = "service-ips";
  sets[kServiceIps.set].key = {Field::kIpv4Addr, Field::kInetProto, Field::kInetService};
  sets[kServiceIps.set].data = {Field::kIpv4Addr};
  sets[kClusterIps.set].name = "cluster-ips";
  sets[kClusterIps.set].key = {Field::kIpv4Addr};
  return tables;
}

}  // namespace

std::string ForeignStorm::Changes::ToString() const {
  return absl::StrCat(added, " elements added, ", deleted, " deleted, ", rules, " rules added in ",
                      absl::SixDigits(time.count()), " s, ", static_cast<int64_t>(per_second()),
                      " per second, ", rejected, " refused");
}

absl::StatusOr<std::unique_ptr<ForeignStorm>> ForeignStorm::Start(const NetNs& netns,
                                                                  int per_second) {
  auto kernel = netns.Run([] { return nft::NetlinkKernel::Open(Tables()); });
  if (!kernel.ok()) return kernel.status();
  absl::StatusOr<std::vector<nft::Element>> victims = (*kernel)->ReadSet(kServiceIps);
  if (!victims.ok()) return victims.status();
  if (victims->empty()) return absl::FailedPreconditionError("there are no Services to be harmed");
  RawSocket rules = netns.Run(OpenRawSocket);
  if (!rules) return absl::ErrnoToStatus(errno, "open a socket for rules");
  std::unique_ptr<ForeignStorm> storm(new ForeignStorm(*std::move(kernel), std::move(rules)));
  storm->victims_ = *std::move(victims);
  storm->thread_ = std::thread([raw = storm.get(), per_second] { raw->Blow(per_second); });
  return storm;
}

ForeignStorm::~ForeignStorm() { Stop(); }

ForeignStorm::Changes ForeignStorm::Stop() {
  stop_ = true;
  if (thread_.joinable()) thread_.join();
  return changes_;
}

void ForeignStorm::Blow(int per_second) {
  const Clock::time_point start = Clock::now();
  for (uint64_t number = 0; !stop_; ++number) {
    Change(number);
    std::this_thread::sleep_until(start +
                                  std::chrono::microseconds(1'000'000 * number) / per_second);
  }
  changes_.time = Clock::now() - start;
}

absl::Status ForeignStorm::AddRule() {
  RawBatch batch(Family::kIpv4);
  batch.AddRule("svcmap", "filter-forward");
  return batch.Send(rules_);
}

void ForeignStorm::Change(uint64_t number) {
  if (number % kRuleEvery == kRuleEvery - 1) {
    ++(AddRule().ok() ? changes_.rules : changes_.rejected);
    return;
  }
  nft::Transaction transaction;
  const bool add = number % 2 == 0;
  // The storm adds addresses from 10.200.0.0 upwards, which no Service uses.
  const uint8_t address[4] = {10, static_cast<uint8_t>(200 + number / 65536 % 50),
                              static_cast<uint8_t>(number / 256), static_cast<uint8_t>(number)};
  if (add) {
    transaction.Add({.set = kClusterIps, .key = address, .data = {}, .comment = {}});
  } else {
    const nft::Element& victim = victims_[number / 2 * 7919 % victims_.size()];
    transaction.Delete({.set = kServiceIps, .key = victim.key, .data = victim.data, .comment = {}});
  }
  const bool committed = kernel_->Apply(transaction).outcome == nft::ApplyOutcome::kCommitted;
  ++(!committed ? changes_.rejected : add ? changes_.added : changes_.deleted);
}

}  // namespace svcmap::testing
