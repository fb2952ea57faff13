#include "nft/model/transaction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace svcmap::nft {
namespace {

using ::testing::ElementsAre;
using Bytes = std::vector<uint8_t>;

std::vector<std::string> Comments(const Transaction& transaction) {
  std::vector<std::string> comments;
  transaction.ForEachElement(
      [&](Verb, const ElementView& element) { comments.emplace_back(element.comment); });
  return comments;
}

ElementView View(const Bytes& key, const Bytes& data = {}, std::string_view comment = {}) {
  return {.set = {Family::kIpv4, 3}, .key = key, .data = data, .comment = comment};
}

// Elements written by other processes may have comments of up to 250 bytes.
TEST(TransactionTest, AForeignCommentDoesNotHinderDeletion) {
  Transaction transaction;
  transaction.Delete(View({1}, {}, std::string(250, 'x')));
  EXPECT_THAT(Comments(transaction), ElementsAre(""));
}

TEST(TransactionTest, ATooLongCommentIsCut) {
  Transaction transaction;
  transaction.Add(View({1}, {2}, std::string(1000, 'x')));
  transaction.Add(View({3}, {4}, "y"));
  EXPECT_THAT(Comments(transaction), ElementsAre(std::string(Transaction::kMaxComment, 'x'), "y"));
}

TEST(TransactionTest, AnEndpointTakesAboutThirtyBytes) {
  Transaction transaction;
  transaction.Add(View(Bytes(8), Bytes(8), "ns/web:http"));
  EXPECT_LE(transaction.byte_count(), 32u);
}

}  // namespace
}  // namespace svcmap::nft
