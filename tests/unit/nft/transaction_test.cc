#include "nft/model/transaction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace svcmap::nft {
namespace {

using ::testing::ElementsAre;
using Bytes = std::vector<uint8_t>;

struct Entry {
  Verb verb;
  SetRef set;
  Bytes key;
  Bytes data;
  std::string comment;
  bool interval_end;
  Bytes key_end = {};

  friend bool operator==(const Entry&, const Entry&) = default;
};

std::vector<Entry> Entries(const Transaction& transaction) {
  std::vector<Entry> entries;
  transaction.ForEachElement([&](Verb verb, const ElementView& e) {
    entries.push_back({verb,
                       e.set,
                       {e.key.begin(), e.key.end()},
                       {e.data.begin(), e.data.end()},
                       std::string(e.comment),
                       e.interval_end,
                       {e.key_end.begin(), e.key_end.end()}});
  });
  return entries;
}

ElementView View(const Bytes& key, const Bytes& data = {}, std::string_view comment = {}) {
  return {.set = {Family::kIpv4, 3}, .key = key, .data = data, .comment = comment};
}

TEST(TransactionTest, ANewOneIsEmpty) {
  const Transaction transaction;
  EXPECT_TRUE(transaction.empty());
  EXPECT_EQ(transaction.element_count(), 0u);
  EXPECT_EQ(transaction.byte_count(), 0u);
  EXPECT_THAT(Entries(transaction), ElementsAre());
}

TEST(TransactionTest, TableOperationsAndElementsMakeItNotEmpty) {
  Transaction drop, creation, repair, element;
  drop.DropTable(Family::kIpv6);
  repair.RepairChains({Family::kIpv4, nullptr, {"services"}, {}, {}});
  creation.CreateTable({Family::kIpv4});
  element.Delete(View({1}));
  EXPECT_FALSE(drop.empty());
  EXPECT_FALSE(creation.empty());
  EXPECT_FALSE(repair.empty());
  EXPECT_FALSE(element.empty());
}

TEST(TransactionTest, ElementsComeBackInOrderAndWhole) {
  Transaction transaction;
  const SetRef six = {Family::kIpv6, 255};
  transaction.Add(View({1, 2}, {3, 4, 5}, "ns/web:http"));
  transaction.Delete(View({9}));
  transaction.Add({.set = six, .key = Bytes(40, 7), .data = Bytes(20, 8), .comment = {}});
  transaction.Add({.set = six, .key = Bytes{1}, .data = {}, .comment = "c", .interval_end = true});
  const SetRef four = {Family::kIpv4, 3};
  EXPECT_THAT(Entries(transaction),
              ElementsAre(Entry{Verb::kAdd, four, {1, 2}, {3, 4, 5}, "ns/web:http", false},
                          Entry{Verb::kDelete, four, {9}, {}, "", false},
                          Entry{Verb::kAdd, six, Bytes(40, 7), Bytes(20, 8), "", false},
                          Entry{Verb::kAdd, six, {1}, {}, "c", true}));
  EXPECT_EQ(transaction.element_count(), 4u);
  EXPECT_EQ(transaction.deletion_count(), 1u);
}

TEST(TransactionTest, DeletionCarriesNoData) {
  Transaction transaction;
  transaction.Delete(View({1, 2}, {3, 4}, "comment"));
  EXPECT_THAT(Entries(transaction),
              ElementsAre(Entry{Verb::kDelete, {Family::kIpv4, 3}, {1, 2}, {}, "", false}));
}

TEST(TransactionTest, DeletionOfARangeEndStaysOne) {
  Transaction transaction;
  transaction.Delete({.set = {}, .key = Bytes{1}, .data = {}, .comment = {}, .interval_end = true});
  EXPECT_TRUE(Entries(transaction)[0].interval_end);
  EXPECT_EQ(Entries(transaction)[0].verb, Verb::kDelete);
}

TEST(TransactionTest, ARangeKeepsItsLastKeyAlsoInADeletion) {
  Transaction transaction;
  const SetRef set = {Family::kIpv6, 11};
  const Bytes first(40, 1), last(40, 2), data(16, 3);
  transaction.Add({.set = set, .key = first, .data = data, .comment = "c", .key_end = last});
  transaction.Delete({.set = set, .key = first, .data = data, .comment = "c", .key_end = last});
  transaction.Add(View({7}, {8}));
  EXPECT_THAT(Entries(transaction),
              ElementsAre(Entry{Verb::kAdd, set, first, data, "c", false, last},
                          Entry{Verb::kDelete, set, first, {}, "", false, last},
                          Entry{Verb::kAdd, {Family::kIpv4, 3}, {7}, {8}, "", false, {}}));
}

TEST(TransactionTest, ElementsOfAnotherComeBehindOurs) {
  Transaction ours, more, empty;
  ours.Delete(View({1}));
  more.Add(View({2}, {3}));
  more.Delete(View({4}));
  Transaction copy = more;
  ours.AddElements(std::move(more));
  empty.AddElements(std::move(copy));
  EXPECT_EQ(ours.element_count(), 3u);
  EXPECT_EQ(ours.deletion_count(), 2u);
  EXPECT_EQ(Entries(ours)[1].key, Bytes{2});
  EXPECT_EQ(empty.element_count(), 2u);
  EXPECT_EQ(Entries(empty)[1].key, Bytes{4});
}

TEST(TransactionTest, TheLongestCommentFits) {
  Transaction transaction;
  const std::string comment(Transaction::kMaxComment, 'x');
  transaction.Add(View({1}, {}, comment));
  EXPECT_EQ(Entries(transaction)[0].comment, comment);
}

// Elements written by other processes may have comments of up to 250 bytes.
TEST(TransactionTest, AForeignCommentDoesNotHinderDeletion) {
  Transaction transaction;
  transaction.Delete(View({1}, {}, std::string(250, 'x')));
  EXPECT_EQ(Entries(transaction)[0].comment, "");
}

TEST(TransactionTest, ATooLongCommentIsCut) {
  Transaction transaction;
  transaction.Add(View({1}, {2}, std::string(1000, 'x')));
  transaction.Add(View({3}, {4}, "y"));
  const std::vector<Entry> entries = Entries(transaction);
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(entries[0].comment, std::string(Transaction::kMaxComment, 'x'));
  EXPECT_EQ(entries[1].comment, "y");
}

TEST(TransactionTest, AnEndpointTakesAboutThirtyBytes) {
  Transaction transaction;
  transaction.Add(View(Bytes(8), Bytes(8), "ns/web:http"));
  EXPECT_LE(transaction.byte_count(), 32u);
}

TEST(TransactionTest, DropsAndCreationsAreKeptInOrder) {
  Transaction transaction;
  transaction.CreateTable({Family::kIpv6});
  transaction.DropTable(Family::kIpv6);
  transaction.DropTable(Family::kIpv4);
  ASSERT_EQ(transaction.creations().size(), 1u);
  EXPECT_EQ(transaction.creations()[0].family, Family::kIpv6);
  EXPECT_EQ(transaction.creations()[0].spec, nullptr);
  EXPECT_FALSE(transaction.creations()[0].existing);
  EXPECT_THAT(transaction.drops(), ElementsAre(Family::kIpv6, Family::kIpv4));
}

}  // namespace
}  // namespace svcmap::nft
