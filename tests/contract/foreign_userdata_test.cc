// Other processes can store any nftables user data in svcmapd's tables. ReadSet must return the
// keys of elements with any user data, and the comment if there is a comment.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "nft/netlink/netlink_kernel.h"
#include "proxy/ruleset/table.h"
#include "tests/contract/private_netns.h"
#include "tests/contract/rows.h"
#include "tests/support/raw_nft.h"
#include "tests/support/status_matchers.h"

namespace svcmap::nft {
namespace {

using ::svcmap::testing::Address;
using ::svcmap::testing::Bytes;
using ::svcmap::testing::RawBatch;
using ::svcmap::testing::ServiceRow;

// NFT_USERDATA_MAXLEN is 256, but Linux 6.18 rejects 255 bytes on an element.
constexpr size_t kMaxUserdata = 254;

Bytes Concatenate(Bytes bytes, std::string_view text) {
  bytes.insert(bytes.end(), text.begin(), text.end());
  return bytes;
}

Bytes KeyOf(Family family, uint32_t number) {
  const IpAddress address = Address(family, number);
  return {address.bytes().begin(), address.bytes().end()};
}

class ForeignUserdataTest : public ::testing::TestWithParam<Family> {
 protected:
  void SetUp() override {
    testing::MakePrivateNetNs(netns_);
    if (!netns_) return;
    TableSpecs tables;
    for (const Family family : kFamilies) tables.push_back(proxy::MakeTable(family, {}));
    ASSERT_OK_AND_ASSIGN(kernel_, netns_->Run([&] { return NetlinkKernel::Open(tables); }));
  }

  Family family() const { return GetParam(); }

  // Creates a table and the set cluster-ips with the given user data, and one element for each
  // item.
  void Write(const Bytes& table_userdata, const Bytes& set_userdata,
             const std::vector<Bytes>& elements) {
    const std::string table(proxy::kTableName);
    RawBatch batch(family());
    batch.AddTable(table, table_userdata);
    batch.AddSet(table, "cluster-ips", family() == Family::kIpv4 ? 4 : 16, set_userdata);
    for (uint32_t i = 0; i < elements.size(); ++i) {
      batch.AddElement(table, "cluster-ips", KeyOf(family(), i), elements[i]);
    }
    ASSERT_OK(netns_->Run([&] { return batch.Send(); }));
  }

  // Returns the elements of the set by key.
  std::map<Bytes, Element> Read() {
    std::map<Bytes, Element> result;
    const absl::StatusOr<std::vector<Element>> elements =
        kernel_->ReadSet({family(), proxy::kClusterIps});
    EXPECT_OK(elements);
    if (!elements.ok()) return result;
    for (const Element& element : *elements) result[element.key] = element;
    EXPECT_EQ(result.size(), elements->size()) << "a key came twice";
    return result;
  }

  std::optional<testing::NetNs> netns_;
  std::unique_ptr<NetlinkKernel> kernel_;
};

INSTANTIATE_TEST_SUITE_P(Families, ForeignUserdataTest, ::testing::ValuesIn(kFamilies),
                         [](const auto& info) { return std::string(FamilyName(info.param)); });

TEST_P(ForeignUserdataTest, ACommentIsReadWhereThereIsOneAndNothingElse) {
  struct Case {
    const char* name;
    Bytes userdata;
    std::string comment;
  };
  const std::vector<Case> cases = {
      {"no user data", {}, ""},
      {"a comment as nft writes it", Concatenate({0, 4}, std::string("abc\0", 4)), "abc"},
      {"a comment without its zero", Concatenate({0, 3}, "abc"), "abc"},
      {"a comment with a zero inside", Concatenate({0, 4}, std::string("a\0b\0", 4)), "a"},
      {"an empty comment", {0, 0}, ""},
      {"a comment of only a zero", {0, 1, 0}, ""},
      {"a type without a length", {0}, ""},
      {"a comment longer than the data", Concatenate({0, 5}, "abc"), ""},
      {"a comment behind another record", Concatenate({7, 2, 1, 2, 0, 2}, "x"), ""},
      {"a whole comment behind another record", Concatenate({7, 2, 1, 2, 0, 1}, "x"), "x"},
      {"another record longer than the data", {7, 200, 1, 2, 3}, ""},
      {"a long foreign comment", Concatenate({0, 250}, std::string(250, 'c')),
       std::string(250, 'c')},
      {"as many bytes as the kernel takes", Bytes(kMaxUserdata, 0xff), ""},
      {"zeros", Bytes(kMaxUserdata, 0), ""},
  };
  std::vector<Bytes> userdata;
  for (const Case& c : cases) userdata.push_back(c.userdata);
  Write({}, {}, userdata);
  const std::map<Bytes, Element> read = Read();
  ASSERT_EQ(read.size(), cases.size());
  for (uint32_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(cases[i].name);
    const auto found = read.find(KeyOf(family(), i));
    ASSERT_NE(found, read.end());
    EXPECT_EQ(found->second.comment, cases[i].comment);
    EXPECT_TRUE(found->second.data.empty());
  }
}

TEST_P(ForeignUserdataTest, RandomBytesOnTablesSetsAndElementsHideNoKey) {
  std::mt19937 random(20'240'601);
  const auto random_bytes = [&](size_t size) {
    Bytes bytes(size);
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
    return bytes;
  };
  std::vector<Bytes> elements;
  for (int i = 0; i < 500; ++i) elements.push_back(random_bytes(random() % kMaxUserdata + 1));
  Write(random_bytes(256), random_bytes(256), elements);
  const std::map<Bytes, Element> read = Read();
  EXPECT_EQ(read.size(), elements.size());
  for (uint32_t i = 0; i < elements.size(); ++i) EXPECT_EQ(read.count(KeyOf(family(), i)), 1u);
  EXPECT_TRUE(*kernel_->HasTable(family()));
}

// Other processes commit while the real kernel dumps a set. ReadSet must return one consistent
// state, never a partial or mixed state.

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
