#include "tests/support/foreign_storm.h"

#include "absl/strings/str_cat.h"
#include "tests/support/raw_nft.h"

namespace svcmap::testing {
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
