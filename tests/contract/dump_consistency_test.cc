// Other processes commit while the real kernel dumps a set. ReadSet must return one consistent
// state, never a partial or mixed state.
#include <gtest/gtest.h>
#include <atomic>

#include <chrono>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "nft/netlink/netlink_kernel.h"
#include "proxy/ruleset/table.h"
#include "tests/contract/private_netns.h"
#include "tests/contract/rows.h"
#include "tests/support/status_matchers.h"

namespace svcmap::nft {
namespace {

using ::svcmap::testing::ServiceRow;

constexpr uint32_t kCount = 4000;  // A dump of this many elements has about 15 messages.
// Pause between commits, so that some dumps succeed. Each interrupted dump makes the pause longer.
constexpr auto kPause = std::chrono::milliseconds(5);
constexpr int kReads = 10;
constexpr SetRef kSet = {Family::kIpv4, proxy::kServiceIps};

class DumpConsistencyTest : public ::testing::Test {
 protected:
  void SetUp() override {
    testing::MakePrivateNetNs(netns_);
    if (!netns_) return;
    TableSpecs tables;
    for (const Family family : kFamilies) tables.push_back(proxy::MakeTable(family, {}));
    ASSERT_OK_AND_ASSIGN(reader_, netns_->Run([&] { return NetlinkKernel::Open(tables); }));
    ASSERT_OK_AND_ASSIGN(writer_, netns_->Run([&] { return NetlinkKernel::Open(tables); }));
    Transaction creation;
    creation.CreateTable({Family::kIpv4});
    AddState(creation, 1);
    ASSERT_EQ(writer_->Apply(creation).outcome, ApplyOutcome::kCommitted);
  }

  // Adds kCount elements, all with the data `state`.
  static void AddState(Transaction& transaction, uint32_t state) {
    for (uint32_t i = 0; i < kCount; ++i) {
      transaction.Add(ServiceRow(Family::kIpv4, i, state));
    }
  }

  // Repeatedly reads the set while `replace` commits one state after another.
  template <typename Fn>
  void ReadWhile(const Fn& replace) {
    std::atomic<int> interrupted = 0;  // Number of dumps since the last successful dump.
    const std::jthread other([&](const std::stop_token& stop) {
      for (uint32_t state = 2; !stop.stop_requested(); ++state) {
        Transaction transaction;
        replace(transaction, state);
        const ApplyResult result = writer_->Apply(transaction);
        EXPECT_EQ(result.outcome, ApplyOutcome::kCommitted) << result.error;
        std::this_thread::sleep_for(kPause * (1 + interrupted));
      }
    });
    for (int reads = 0; reads < kReads && !HasFailure();) {
      const absl::StatusOr<std::vector<Element>> elements = reader_->ReadSet(kSet);
      if (absl::IsUnavailable(elements.status())) {  // The dump was interrupted too often.
        ++interrupted;
        continue;
      }
      interrupted = 0;
      ASSERT_OK(elements);
      EXPECT_EQ(elements->size(), kCount);
      for (const Element& element : *elements) {
        ASSERT_EQ(element.data, elements->front().data) << "two states in dump " << reads;
      }
      ++reads;
    }
  }

  std::optional<testing::NetNs> netns_;
  std::unique_ptr<NetlinkKernel> reader_;
  std::unique_ptr<NetlinkKernel> writer_;
};

TEST_F(DumpConsistencyTest, ElementsAreReplacedUnderADump) {
  ReadWhile([](Transaction& transaction, uint32_t state) {
    for (uint32_t i = 0; i < kCount; ++i) transaction.Delete(ServiceRow(Family::kIpv4, i));
    AddState(transaction, state);
  });
}

TEST_F(DumpConsistencyTest, TheTableIsRecreatedUnderADump) {
  ReadWhile([](Transaction& transaction, uint32_t state) {
    transaction.DropTable(Family::kIpv4);
    transaction.CreateTable({Family::kIpv4});
    AddState(transaction, state);
  });
}

// A set without a fixed size starts small. While a set grows, the kernel rehashes it several times
// in the background, probably during a dump.
TEST_F(DumpConsistencyTest, ASetThatHasJustGrownIsReadWhole) {
  constexpr uint32_t kElements = 500;
  Transaction growth, shrinkage;
  for (uint32_t i = 0; i < kElements; ++i) {
    // Long comments split the dump into several messages.
    growth.Add(testing::ClusterIpRow(Family::kIpv4, i).Comment(std::string(120, 'x')));
    shrinkage.Delete(testing::ClusterIpRow(Family::kIpv4, i));
  }
  for (int round = 0; round < 50; ++round) {
    ASSERT_EQ(writer_->Apply(growth).outcome, ApplyOutcome::kCommitted);
    ASSERT_OK_AND_ASSIGN(const std::vector<Element> elements,
                         reader_->ReadSet({Family::kIpv4, proxy::kClusterIps}));
    ASSERT_EQ(writer_->Apply(shrinkage).outcome, ApplyOutcome::kCommitted);
    std::set<std::vector<uint8_t>> keys;
    for (const Element& element : elements) keys.insert(element.key);
    ASSERT_EQ(elements.size(), kElements) << "round " << round;
    ASSERT_EQ(keys.size(), kElements) << "round " << round;
  }
}

}  // namespace
}  // namespace svcmap::nft
