// After any sequence of changes, the kernel contains exactly the desired rows, even if a share of
// the batches is rejected or has an unknown outcome. Each change writes only the rows that it
// affects.
//
// SVCMAP_PROPERTY_SEEDS=N runs the tests with N seeds instead of a few seeds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/hash/hash.h"
#include "nft/netlink/netlink_kernel.h"
#include "proxy/reconcile/reconciler.h"
#include "tests/contract/faulty_kernel.h"
#include "tests/contract/packet_judge.h"
#include "tests/contract/private_netns.h"
#include "tests/contract/random_changes.h"
#include "tests/contract/random_faults.h"
#include "tests/support/fake_disk.h"
#include "tests/support/fake_kernel.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/proxy/all_rows.h"
#include "tests/unit/proxy/row_text.h"

namespace svcmap::proxy {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace)
using ::testing::IsEmpty;

using Digests = std::vector<uint64_t>;  // Sorted.

enum class On { kFake, kReal, kRealByFaultySockets };

// Returns the number of elements that a change to a Service writes.
size_t ElementsOf(const std::string& key, const ServiceRows* rows) {
  size_t count = OwnRows(key, *rows).size() + SharedRows(*rows).size();
  for (const PortRows& port : rows->ports) {
    if (!port.affinity) count += port.cluster.slots.size() + port.local.slots.size();
  }
  return count;
}
// A commit deletes and adds the first row of the marker in each family, and may add timeouts.
constexpr size_t kMarkerElements = 4 + 2 * 2 * kMaxTimers;

// Describes in sorted lines how a table treats packets. The lines omit the numbers of groups,
// slots, ports, endpoints and timeouts.
class MeaningOf {
 public:
  MeaningOf(nft::Kernel& kernel, Family family, uint8_t sets)
      : kernel_(kernel), family_(family), sets_(sets) {}

  Lines Take() {
    ReadGroups();
    for (const nft::Element& e : Read(kLocalSets)) local_sets_[e.key] = e.data;
    for (const SetIndex set : {kServiceIps, kRangePorts, kRangeBlocks}) {
      for (const nft::Element& e : Read(set)) {
        std::string text = Text({{family_, set}, e.key, {}, e.comment});
        text += Descriptor(e.data);
        if (const auto local = local_sets_.find(e.data); local != local_sets_.end()) {
          text += " or" + Descriptor(local->second);
        }
        lines_.push_back(text);
      }
    }
    for (const SetIndex set :
         {kPodSources, kMasqueradeSources, kClusterIps, kServiceCidrs, kNoEndpointServices,
          kNoEndpointNodePorts, kHairpinConnections, kFirewallIps, kFirewallSources, kSelfEndpoints,
          kPingAddresses, kPingTarget, kResetServices, kNoEndpointRangePorts,
          kNoEndpointRangeBlocks, kRangeHairpins, kRangeFirewallIps, kRangeFirewallSources}) {
      for (const nft::Element& e : Read(set)) {
        lines_.push_back(Text({{family_, set}, e.key, {}, e.comment, e.interval_end, e.key_end}));
      }
    }
    return std::move(lines_);
  }

 private:
  using Bytes = std::vector<uint8_t>;

  // Returns no elements if the table does not have the set.
  std::vector<nft::Element> Read(SetIndex set) {
    if (set >= sets_) return {};
    auto elements = kernel_.ReadSet({family_, set});
    EXPECT_OK(elements);
    return elements.ok() ? *std::move(elements) : std::vector<nft::Element>();
  }

  // Reads the endpoints of each group, with and without affinity.
  void ReadGroups() {
    const auto endpoint = [&](SetIndex set, const nft::Element& e) {
      return nft::FieldsToText(FullTables()[Index(family_)].sets[set].data, e.data);
    };
    for (const SetIndex set : {kEndpoints, kRangeEndpoints}) {
      for (const nft::Element& e : Read(set)) {
        groups_[{e.key.begin(), e.key.begin() + group_size()}].insert(endpoint(set, e));
      }
    }
    std::map<Bytes, std::string> choices;
    for (const SetIndex set : {kAffinityEndpoints, kAffinityLocalEndpoints, kRangeAffinityEndpoints,
                               kRangeAffinityLocalEndpoints}) {
      for (const nft::Element& e : Read(set)) {
        const std::string text = endpoint(set, e);
        EXPECT_EQ(choices.emplace(e.key, text).first->second, text) << "the sets disagree";
      }
    }
    for (const nft::Element& e : Read(kAffinitySlots)) {
      const auto choice = choices.find({e.data.begin(), e.data.begin() + 4});
      EXPECT_NE(choice, choices.end()) << "a slot leads nowhere";
      if (choice == choices.end()) continue;
      sticky_groups_[{e.key.begin(), e.key.begin() + 2}].insert(choice->second);
    }
  }

  std::string Descriptor(const Bytes& descriptor) {
    std::string text = " class " + std::to_string(descriptor[0]) + " to";
    const bool sticky = descriptor[0] >= DescriptorByte(DispatchKind::kSticky, 0);
    if (sticky) {
      const uint8_t kind_and_set = *(descriptor.end() - 3) & ~(kMaxTimers - 1);
      text += " sticky " + std::to_string(kind_and_set);
    }
    const auto& endpoints = sticky ? sticky_groups_[{descriptor.end() - 2, descriptor.end()}]
                                   : groups_[{descriptor.end() - group_size(), descriptor.end()}];
    for (const std::string& to : endpoints) text += " " + to;
    return text;
  }

  std::ptrdiff_t group_size() const { return family_ == Family::kIpv4 ? 3 : 4; }

  nft::Kernel& kernel_;
  Family family_;
  uint8_t sets_;  // Number of sets with rows.
  // Endpoints of each group. A multiset contains an endpoint once for each slot of the endpoint.
  std::map<Bytes, std::multiset<std::string>> groups_, sticky_groups_;
  std::map<Bytes, Bytes> local_sets_;
  Lines lines_;
};

Lines Meaning(nft::Kernel& kernel, const nft::TableSpecs& tables) {
  Lines meaning;
  for (const Family family : kFamilies) {
    const uint8_t sets = RowSetCount(tables[Index(family)]);
    for (std::string& line : MeaningOf(kernel, family, sets).Take())
      meaning.push_back(std::move(line));
  }
  std::sort(meaning.begin(), meaning.end());
  return meaning;
}

// Returns the entries that one of two sorted lists contains more often: "- only in a", "+ only in
// b".
Lines Differences(const Lines& a, const Lines& b) {
  Lines only_a, only_b;
  std::set_difference(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(only_a));
  std::set_difference(b.begin(), b.end(), a.begin(), a.end(), std::back_inserter(only_b));
  for (std::string& line : only_a) line.insert(0, "- ");
  for (const std::string& line : only_b) only_a.push_back("+ " + line);
  return only_a;
}

uint64_t DigestOf(const nft::ElementView& element) {
  const auto text = [](std::span<const uint8_t> bytes) {
    return std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  return absl::HashOf(element.set.family, element.set.set, element.interval_end, text(element.key),
                      text(element.key_end), text(element.data), element.comment);
}

// Digests are compared much faster than lines of text, which are only needed after a difference.
Digests DigestsOf(const nft::Transaction& additions) {
  Digests digests;
  additions.ForEachElement([&](nft::Verb, const nft::ElementView& element) {
    if (element.set.set != kMarker) digests.push_back(DigestOf(element));
  });
  std::sort(digests.begin(), digests.end());
  return digests;
}

// Returns nullopt if a table does not exist or cannot be read.
std::optional<Digests> DigestsOf(nft::Kernel& kernel, const nft::TableSpecs& tables) {
  Digests digests;
  for (const nft::TableSpec& table : tables) {
    const absl::Status read = ForEachElement(kernel, table, [&](const nft::ElementView& element) {
      digests.push_back(DigestOf(element));
    });
    if (!read.ok()) return std::nullopt;
  }
  std::sort(digests.begin(), digests.end());
  return digests;
}

class ConvergenceTest : public ::testing::TestWithParam<std::tuple<On, unsigned>> {
 protected:
  void SetUp() override {
    if (!real()) return;
    testing::MakePrivateNetNs(netns_);
    if (!netns_) return;
    ASSERT_OK_AND_ASSIGN(netlink_,
                         netns_->Run([] { return nft::NetlinkKernel::Open(FullTables()); }));
    if (!faulty_sockets()) return;
    ASSERT_OK_AND_ASSIGN(unreliable_, netns_->Run([this] {
      return nft::NetlinkKernel::Open(
          FullTables(), {.answer_timeout = std::chrono::milliseconds(5), .faults = &faults_});
    }));
  }
  // Tables with the sets of the current options.
  const nft::TableSpecs& tables() const {
    if (options_.ruleset.port_ranges) return FullTables();
    if (options_.ruleset.tcp_resets == TcpResets::kStrict) return ResetTables();
    return options_.ruleset.answer_ping ? PingTables() : Tables();
  }
  bool real() const { return std::get<On>(GetParam()) != On::kFake; }
  bool faulty_sockets() const { return std::get<On>(GetParam()) == On::kRealByFaultySockets; }
  bool faulty() const { return faulty_sockets() || fault_percent() > 0; }
  unsigned fault_percent() const { return std::get<unsigned>(GetParam()); }
  uint32_t seeds() const {
    const char* wanted = std::getenv("SVCMAP_PROPERTY_SEEDS");
    if (wanted != nullptr) return static_cast<uint32_t>(std::strtoul(wanted, nullptr, 10));
    return real() ? 3 : 10;
  }

  void Run(uint32_t seed, int steps) {
    options_ = {.node_name = "n0"};
    options_.ruleset.answer_ping = seed % 3 == 0;
    if (seed % 4 >= 2) options_.ruleset.tcp_resets = TcpResets::kStrict;
    options_.reset_stale_tcp = seed % 8 >= 4;
    options_.ruleset.port_ranges = seed % 2 == 1;
    nft::FakeKernel fake(tables());
    if (seed % 2 == 0) fake.HideCounts();  // Like Linux before 6.16.
    inner_ = real() ? static_cast<nft::Kernel*>(netlink_.get()) : &fake;
    if (faulty_sockets()) {
      faults_.Start(seed, fault_percent());
      kernel_.emplace(*unreliable_, 0, seed);
      kernel_->SetExcuse([this] { return faults_.TakeFailures() > 0 || interfered_; });
    } else {
      kernel_.emplace(*inner_, fault_percent(), seed);
      kernel_->SetExcuse([this] { return interfered_; });
    }
    options_.ruleset.detect_local =
        seed % 2 == 0 ? DetectLocal::kNodeCidr : DetectLocal::kClusterCidr;
    if (seed % 4 == 1) options_.ruleset.cluster_cidr[0] = IpPrefix::Parse("10.0.0.0/8");
    options_.ruleset.masquerade_all = seed % 5 == 0;
    judge_.reset();
    if (!real()) {
      judge_.emplace(fake, RowSetCount(tables()[0]), MasqueradesClusterIps(options_.ruleset));
      options_.await_packets = [this] { judge_->PacketsLeft(); };
      kernel_->SetObserver([this](const nft::Transaction& transaction) {
        if (!interfered_) judge_->Committed(transaction);
      });
    }
    changes_.emplace(seed);
    interfaces_.clear();
    sent_.clear();
    reconciler_.reset();
    disk_ = FakeDisk();
    BeginRun();
    for (int step = 0; step < steps && !HasFailure(); ++step) {
      SCOPED_TRACE("step " + std::to_string(step));
      ChangeSomething();
      // Changes that are not settled here are merged with the changes of the next step.
      if (changes_->Chance(70)) Settle();
    }
    Settle();
    CheckMeaning();
  }

  void ChangeSomething() {
    const uint64_t sequence = ++sequence_;
    switch (changes_->Below(20)) {
      case 0:
        interfaces_ = changes_->InterfaceAddresses();
        reconciler_->node().SetInterfaceAddresses(interfaces_);
        return;
      case 1:
        TakeSnapshot(sequence);
        return;
      case 2:
        InterfereAndTell();
        return;
      case 3:
        Restart();
        return;
      case 4:
        for (int i = 0; i < 8; ++i) Send(sequence);
        return;
      default:
        Send(sequence);
    }
  }

  void Send(uint64_t sequence) {
    const Change change = changes_->AnyChange();
    if (!change.removal()) sent_[{change.kind, change.key, MessageOf(change)}] = change;
    reconciler_->store().Apply(change, sequence);
  }

  static std::string MessageOf(const Change& change) {
    if (change.service) return change.service->message;
    if (change.slice) return change.slice->message;
    return change.node ? change.node->message : change.service_cidr->message;
  }

  // Sends a snapshot with about 60% of the stored objects, in a few parts.
  void TakeSnapshot(uint64_t sequence) {
    Store& store = reconciler_->store();
    std::vector<std::string> services, slices;
    for (const auto& [key, entry] : store.services()) services.push_back(key);
    for (const auto& [key, slice] : store.slices()) slices.push_back(key);
    // Sort the names, so that a seed always produces the same result.
    std::sort(services.begin(), services.end());
    std::sort(slices.begin(), slices.end());
    store.BeginSnapshot();
    for (const std::string& key : services) {
      if (changes_->Chance(60)) store.AddToSnapshot(Kind::kService, key);
    }
    for (const std::string& key : slices) {
      if (changes_->Chance(60)) store.AddToSnapshot(Kind::kEndpointSlice, key);
    }
    for (int part = 0; part < 3; ++part) {
      for (int i = 0; i < 4; ++i) Send(sequence);
      SyncOnce();
    }
    store.EndSnapshot(sequence);
  }

  // Changes the tables as another process would. Reports either the change or a loss of
  // notifications to the reconciler.
  void InterfereAndTell() {
    nft::Transaction transaction;
    nft::ForeignChange change;
    const SetIndex set = changes_->Chance(50) ? kServiceIps : kEndpoints;
    if (changes_->Chance(40)) {
      transaction.DropTable(changes_->Chance(50) ? Family::kIpv4 : Family::kIpv6);
      change.table = true;
    } else if (const auto some = inner_->ReadSet({Family::kIpv4, set});
               some.ok() && !some->empty()) {
      transaction.Delete({{Family::kIpv4, set}, some->front().key, {}, {}});
      change.elements.push_back({{Family::kIpv4, set}, some->front().key});
    }
    EXPECT_OK(inner_->Apply(transaction).error);
    change.lost = changes_->Chance(30);
    interfered_ = true;
    if (changes_->Chance(10)) {
      reconciler_->Invalidate();
    } else {
      reconciler_->MarkSuspect(change);
    }
  }

  // Starts a new run. In a run with faults, writes to the disk sometimes fail.
  void BeginRun() {
    // Tables of the fake kernel have fixed sets.
    if (real() && changes_->Chance(30)) options_.ruleset.answer_ping ^= true;
    if (real() && changes_->Chance(30)) {
      options_.ruleset.tcp_resets = changes_->Chance(50) ? TcpResets::kStrict : TcpResets::kLoose;
      options_.reset_stale_tcp = changes_->Chance(50);
    }
    reconciler_.reset();
    if (faulty()) {
      disk_.fails = [this] { return changes_->Chance(5); };
    }
    const SavedObjects saved = disk_.Begin(changes_->Below(disk_.unfinished() + 1));
    absl::StatusOr<Received> beginning;
    do {  // Repeat the start if reading the marker fails.
      reconciler_ = std::make_unique<Reconciler>(*kernel_, options_, &disk_);
      beginning = reconciler_->Adopt(saved);
    } while (!beginning.ok());
    reconciler_->node().SetInterfaceAddresses(interfaces_);
    ++beginnings_[*beginning];
    if (*beginning != Received::kStored) return;
    for (const SavedObject& object : saved.objects) {
      const auto change = sent_.find({object.kind, object.key, *object.message});
      ASSERT_NE(change, sent_.end()) << "saved what was never sent: " << object.key;
      reconciler_->store().Apply(change->second, 0);
    }
  }

  // Starts a new run with the tables and the state files of the previous run. After the start, the
  // controller sends the same objects as a snapshot.
  void Restart() {
    const bool settled = !reconciler_->Pending() && reconciler_->leftovers().empty() &&
                         !reconciler_->WorkLeft().suspects && !faulty();
    const std::optional<Digests> before = DigestsOf(*inner_, tables());
    const ReconcilerOptions options_before = options_;
    Reconciler old(*kernel_, options_);
    Notify(*reconciler_, old);
    BeginRun();
    if (HasFatalFailure()) return;
    const bool same_options = options_.ruleset.answer_ping == options_before.ruleset.answer_ping &&
                              options_.ruleset.tcp_resets == options_before.ruleset.tcp_resets &&
                              options_.reset_stale_tcp == options_before.reset_stale_tcp;
    if (settled && same_options && reconciler_->revision() > 0) {
      ASSERT_EQ(reconciler_->Sync(SIZE_MAX).outcome, SyncResult::Outcome::kNothing);
      ASSERT_EQ(DigestsOf(*inner_, tables()), before);
      ASSERT_TRUE(reconciler_->leftovers().empty());
    }
    if (changes_->Chance(50)) Settle();
    reconciler_->store().BeginSnapshot();
    Notify(old, *reconciler_);
    reconciler_->store().EndSnapshot(1);
    Settle();
  }

  // Sends all stored objects, in an order that differs from the order of arrival.
  void Notify(const Reconciler& from, Reconciler& to) {
    const Store& store = from.store();
    to.node().SetInterfaceAddresses(interfaces_);
    for (const auto& [name, node] : store.nodes()) {
      to.store().Apply({.kind = Kind::kNode, .key = name, .node = node}, 1);
    }
    for (const auto& [name, cidr] : store.service_cidrs()) {
      to.store().Apply({.kind = Kind::kServiceCidr, .key = name, .service_cidr = cidr}, 1);
    }
    for (const auto& [key, slice] : store.slices()) {
      to.store().Apply({.kind = Kind::kEndpointSlice, .key = key, .slice = slice}, 1);
    }
    for (const auto& [key, entry] : store.services()) {
      if (!entry.service) continue;
      to.store().Apply({.kind = Kind::kService, .key = key, .service = entry.service}, 1);
    }
  }

  void SyncOnce() {
    const bool cut = changes_->Chance(50);
    const size_t limit = cut ? 1 + changes_->Below(40) : SIZE_MAX;
    const auto services = reconciler_->applied().services();
    const std::vector<Row> node_rows = reconciler_->applied().node_rows();
    if (judge_) judge_->Aim(DesiredPackets());
    const SyncResult result = reconciler_->Sync(limit);
    JudgeAck();
    if (result.outcome != SyncResult::Outcome::kCommitted || result.recreated) return;
    EXPECT_LE(kernel_->last().element_count(),
              kMarkerElements + ElementsChanged(services, node_rows));
  }

  void JudgeAck() {
    const bool complete = !reconciler_->Pending() && !reconciler_->WorkLeft().suspects &&
                          !reconciler_->WorkLeft().rejected;
    if (judge_ && complete && !interfered_) judge_->Acked(!reconciler_->leftovers().empty());
  }

  // Returns how packets must be handled when all stored objects are in the kernel.
  PacketJudge::Desired DesiredPackets() {
    return PacketJudge::DesiredBy(reconciler_->ContextForExplain(), RandomChanges::Destinations(),
                                  {80, 81, 82, 300, 600, 30000, 30001, 30002, 30003, 30300});
  }

  // Returns the total number of old and new elements of the Services that changed.
  size_t ElementsChanged(const Applied::Services& services,
                         const std::vector<Row>& node_rows) const {
    const Applied& applied = reconciler_->applied();
    size_t changed = 0;
    for (const auto& [key, rows] : services) {
      const ServiceRows* after = applied.Find(key);
      if (after == nullptr || *after != rows) changed += ElementsOf(key, &rows);
    }
    for (const auto& [key, rows] : applied.services()) {
      const auto before = services.find(key);
      if (before == services.end() || before->second != rows) changed += ElementsOf(key, &rows);
    }
    if (Texts(node_rows) != Texts(applied.node_rows())) {
      changed += node_rows.size() + applied.node_rows().size();
    }
    return changed;
  }

  void Settle() {
    int rounds = 0;
    const auto unsettled = [&] {
      return reconciler_->Pending() || reconciler_->WorkLeft().suspects ||
             !reconciler_->leftovers().empty();
    };
    while (unsettled() && ++rounds < 2000) {
      if (!reconciler_->leftovers().empty() && (!reconciler_->Pending() || changes_->Chance(70))) {
        reconciler_->RemoveLeftovers();
        JudgeAck();
      } else if (reconciler_->leftovers().empty() && reconciler_->WorkLeft().suspects) {
        reconciler_->Repair();
      } else {
        SyncOnce();
      }
      if (!unsettled()) reconciler_->Sync(SIZE_MAX);  // Saves objects. The disk may fail.
    }
    ASSERT_FALSE(unsettled()) << "does not settle";
    if (judge_ && interfered_) judge_->Restart(DesiredPackets());
    interfered_ = false;
    ASSERT_THAT(kernel_->rejected(), IsEmpty()) << "the kernel refused what we sent";
    CheckRows();
  }

  void CheckRows() {
    if (reconciler_->revision() == 0) return;
    const nft::Transaction desired = DesiredRows(*reconciler_);
    const nft::Transaction applied = AppliedRows(*reconciler_);
    const std::optional<Digests> digests = DigestsOf(*inner_, tables());
    if (digests != DigestsOf(desired) || digests != DigestsOf(applied)) {
      const Lines held = Contents(*inner_, tables());
      ASSERT_THAT(Differences(held, Additions(desired)), IsEmpty());
      ASSERT_THAT(Differences(held, Additions(applied)), IsEmpty());
      FAIL() << "the digests differ, but the rows do not";
    }
    ASSERT_TRUE(PendingRows(*reconciler_).empty());
    CheckMarker();
    CheckCounts();
  }

  void CheckMarker() {
    Marker marker;
    for (const Family family : kFamilies) {
      ASSERT_OK_AND_ASSIGN(const auto rows, inner_->ReadElements({family, kMarker}, MarkerKeys()));
      ASSERT_TRUE(ParseMarker(family, rows, marker));
      ASSERT_OK_AND_ASSIGN(const auto all, inner_->ReadSet({family, kMarker}));
      ASSERT_EQ(all.size(), marker.timers.size());
    }
    ASSERT_EQ(marker, reconciler_->applied().marker());
  }

  void CheckCounts() {
    for (const Family family : kFamilies) {
      for (uint8_t set = kMarker + 1; set < RowSetCount(tables()[Index(family)]); ++set) {
        ASSERT_OK_AND_ASSIGN(const auto elements, inner_->ReadSet({family, set}));
        const auto count = static_cast<int64_t>(elements.size());
        ASSERT_EQ(reconciler_->applied().counts()[Index(family)][set], count);
      }
    }
  }

  // Compares the kernel's tables with the tables of a new reconciler, which receives all objects in
  // one batch and in another order. Both versions of the tables must treat packets the same way.
  void CheckMeaning() {
    nft::FakeKernel kernel(tables());
    Reconciler anew(kernel, options_);
    Notify(*reconciler_, anew);
    ASSERT_EQ(anew.Sync(SIZE_MAX).outcome, SyncResult::Outcome::kCommitted);
    ASSERT_THAT(Differences(Meaning(*inner_, tables()), Meaning(kernel, tables())), IsEmpty());
  }

  std::optional<testing::NetNs> netns_;
  std::unique_ptr<nft::NetlinkKernel> netlink_;
  nft::RandomFaults faults_;
  std::unique_ptr<nft::NetlinkKernel> unreliable_;
  nft::Kernel* inner_ = nullptr;  // The kernel under test, without the faults that kernel_ injects.
  std::optional<nft::FaultyKernel> kernel_;
  std::optional<PacketJudge> judge_;  // Only with the fake kernel.
  FakeDisk disk_;
  std::unique_ptr<Reconciler> reconciler_;
  std::optional<RandomChanges> changes_;
  // All added or updated objects by kind, key and message.
  std::map<std::tuple<Kind, std::string, std::string>, Change> sent_;
  std::map<Received, int> beginnings_;
  bool interfered_ = false;  // True if a change by another process has not been checked yet.
  std::vector<IpAddress> interfaces_;
  ReconcilerOptions options_;
  uint64_t sequence_ = 0;
};

TEST_P(ConvergenceTest, TheKernelHoldsWhatIsWantedAfterAnyChanges) {
  for (uint32_t seed = 1; seed <= seeds() && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Run(seed, 60);
  }
  if (faulty_sockets()) {
    EXPECT_GT(faults_.count(), 10);
  }
  constexpr uint32_t kMany = 100;  // As in make test-long. With 16 seeds, one state can be missing.
  if (seeds() < kMany) return;
  // Some runs must be able to use the saved objects. In tests with faults, write failures must
  // prevent some runs from using them.
  EXPECT_GT(beginnings_[Received::kStored], 0) << "the seeds show too little";
  if (faulty()) {
    EXPECT_GT(beginnings_[Received::kPreviousRules], 0) << "the seeds show too little";
  }
}

std::string CaseName(const ::testing::TestParamInfo<std::tuple<On, unsigned>>& info) {
  const auto [on, fault_percent] = info.param;
  if (on == On::kRealByFaultySockets) return "RealByFaultySockets";
  return std::string(on == On::kFake ? "Fake" : "Real") +
         (fault_percent == 0 ? "Reliable" : "Faulty");
}

INSTANTIATE_TEST_SUITE_P(, ConvergenceTest,
                         ::testing::Combine(::testing::Values(On::kFake, On::kReal),
                                            ::testing::Values(0u, 20u)),
                         CaseName);
INSTANTIATE_TEST_SUITE_P(Sockets, ConvergenceTest,
                         ::testing::Values(std::tuple(On::kRealByFaultySockets, 5u)), CaseName);

}  // namespace
}  // namespace svcmap::proxy
