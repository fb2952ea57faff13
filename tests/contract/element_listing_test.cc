// Tests of elements as listed by nft(8). nft can load a listing again, which results in the same
// bytes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "tests/contract/edge_rows.h"
#include "tests/contract/listing_world.h"

namespace svcmap::nft {
namespace {

using ::svcmap::testing::Changes;
using ::svcmap::testing::Ip;
using ::svcmap::testing::RangeEnd;
using ::svcmap::testing::RangeRows;
using ::svcmap::testing::RangeStart;
using ::svcmap::testing::Row;
using ::svcmap::testing::RunNft;
using ::svcmap::testing::ServiceRow;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAreArray;

// nft writes range ends without a comment.
std::vector<Element> WithoutEndComments(std::vector<Element> elements) {
  for (Element& element : elements) {
    if (element.interval_end) element.comment.clear();
  }
  return elements;
}

constexpr proxy::SetIndex kRangeSets[] = {proxy::kPodSources, proxy::kMasqueradeSources,
                                          proxy::kServiceCidrs};

class ElementListingTest : public ListingTest {
 protected:
  std::vector<Row> AllRows() const {
    std::vector<Row> rows = testing::EdgeRows(family());
    for (const proxy::SetIndex set : kRangeSets) {
      for (const Row& row : RangeRows(family(), set)) rows.push_back(row);
    }
    return rows;
  }
  void CommitEdgeValues() { Commit(Changes({}, AllRows())); }
};

INSTANTIATE_TEST_SUITE_P(Families, ElementListingTest, ::testing::ValuesIn(kFamilies),
                         [](const auto& info) { return std::string(FamilyName(info.param)); });

// Equal listings alone are not sufficient, because nft would read and write an incorrect byte order
// the same way.
TEST_P(ElementListingTest, ALoadedListingHasTheSameBytesInEverySet) {
  Create();
  CommitEdgeValues();
  ASSERT_OK(RunNft(*fresh_netns_, List(*netns_)));
  ASSERT_OK_AND_ASSIGN(const auto fresh_kernel,
                       fresh_netns_->Run([&] { return NetlinkKernel::Open(tables_); }));
  for (uint8_t set = 0; set < proxy::kSetCount; ++set) {
    SCOPED_TRACE(table().sets[set].name);
    ASSERT_OK_AND_ASSIGN(const auto ours, kernel_->ReadSet({family(), set}));
    ASSERT_OK_AND_ASSIGN(auto loaded, fresh_kernel->ReadSet({family(), set}));
    // nft adds an end element at the lowest address if the first range starts later.
    const IpAddress zero = family() == Family::kIpv4 ? Ip("0.0.0.0") : Ip("::");
    std::erase(loaded, RangeEnd(zero).Read());
    EXPECT_FALSE(ours.empty()) << "no edge values";
    EXPECT_THAT(loaded, UnorderedElementsAreArray(WithoutEndComments(ours)));
  }
}

TEST_P(ElementListingTest, TheWholeAddressSpaceAsARangeListsAndLoadsAgain) {
  Create();
  Commit(Changes({}, {RangeStart(family() == Family::kIpv4 ? Ip("0.0.0.0") : Ip("::"))}));
  const std::string listing = List(*netns_);
  EXPECT_THAT(listing, AnyOf(HasSubstr("{ 0.0.0.0/0 }"), HasSubstr("{ ::/0 }")));
  ASSERT_OK(LoadFresh(listing));
  EXPECT_EQ(List(*fresh_netns_), listing);
}

// Splits "elements = { A, B }" into A and B. The order of elements is not significant, because nft
// has its own sort order and line breaks.
std::vector<std::string> ListedElements(const std::string& text) {
  const size_t begin = text.find("elements = { "), end = text.rfind(" }\n");
  if (begin == text.npos || end == text.npos) return {"no elements in: " + text};
  std::vector<std::string> elements =
      absl::StrSplit(text.substr(begin + 13, end - begin - 13), ',');
  for (std::string& element : elements) absl::StripAsciiWhitespace(&element);
  return elements;
}

// Loading the text of a transaction with nft has the same effect as the batch.
TEST_P(ElementListingTest, ATransactionAsTextDoesTheSame) {
  Create();
  const Transaction first = Changes({}, AllRows());
  Transaction second;
  const std::vector<Row> rows = testing::EdgeRows(family());
  for (size_t i = 0; i < rows.size(); i += 3) second.Delete(rows[i]);
  for (const proxy::SetIndex set : kRangeSets) {
    const std::vector<Row> ranges = RangeRows(family(), set);
    for (const size_t i : {0, 1, 4, 5}) second.Delete(ranges[i]);
  }
  Commit(first);
  Commit(second);

  ASSERT_OK(RunNft(*fresh_netns_, TableText(table())));
  ASSERT_OK(RunNft(*fresh_netns_, TransactionText(tables_, first)));
  ASSERT_OK(RunNft(*fresh_netns_, TransactionText(tables_, second)));
  for (const SetSpec& set : table().sets) {  // nft lists ranges in order of insertion.
    EXPECT_THAT(ListedElements(ListSet(*fresh_netns_, set)),
                UnorderedElementsAreArray(ListedElements(ListSet(*netns_, set))))
        << set.name;
  }
}

TEST_P(ElementListingTest, CommentsThatNftCouldNotReadArePrintedWithQuestionMarks) {
  ASSERT_OK(RunNft(*fresh_netns_, TableText(table())));
  Transaction transaction;
  transaction.Add(ServiceRow(family(), 1)
                      .Comment("a\"b\nc\td\x7f"
                               "e\\ $x *{};#'"));
  const std::string text = TransactionText(tables_, transaction);
  ASSERT_OK(RunNft(*fresh_netns_, text));
  EXPECT_THAT(List(*fresh_netns_), HasSubstr("comment \"a?b?c?d?e\\ $x *{};#'\""));
}

// Affinity records as rules write them, with a timeout.
TEST_P(ElementListingTest, S127RecordsListWithTheirTimesAndLoadAgain) {
  const std::string key = family() == Family::kIpv4 ? "10.0.0.7 . 0x1" : "0x7 . 0x1";
  const std::string data = family() == Family::kIpv4 ? "0.1.0.2" : "0x10002fffefffd";
  const std::string set = TableName() + " affinity ";
  for (const std::string timeout : {"1m30s", "1h30m", "1d", "3h"}) {
    Create();
    ASSERT_OK(RunNft(*netns_, "add element " + set + "{ " + key + " timeout " + timeout + " : " +
                                  data + " }\n"));
    const std::string listing = List(*netns_);
    EXPECT_THAT(listing, HasSubstr(key + " timeout " + timeout + " expires "));
    ASSERT_OK(LoadFresh(listing));
    EXPECT_THAT(List(*fresh_netns_), HasSubstr(key + " timeout " + timeout + " expires "));
    ASSERT_OK_AND_ASSIGN(const auto records, kernel_->ReadSet({family(), proxy::kAffinity}));
    ASSERT_EQ(records.size(), 1u);
    EXPECT_EQ(records[0], testing::RecordRow(family(), 7, 1, proxy::Choice(1, 2)).Read());
  }
}

}  // namespace
}  // namespace svcmap::nft
