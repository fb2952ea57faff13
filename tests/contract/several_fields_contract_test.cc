// Tests of interval sets with several fields, in which each element has a first and a last key.
#include "absl/strings/str_join.h"
#include "tests/contract/kernel_contract.h"
#include "tests/support/not_applicable.h"

namespace svcmap::nft {
namespace {

using ::svcmap::testing::NotApplicable;
using ::svcmap::testing::SourceRow;
using ::testing::Optional;

class SeveralFieldsContract : public KernelContract {
 protected:
  // Returns a source range of the Service address with this number.
  Row Sources(uint32_t number, uint32_t first, uint32_t last) const {
    return SourceRow(family(), number, first, last);
  }
  static Transaction Addition(const Row& row) { return Changes({}, {row}); }
  void ExpectAdditionRejected(const Row& row, absl::StatusCode code) {
    ExpectRejected(Addition(row), code, 0);
  }
};
INSTANTIATE_TEST_SUITE_P(All, SeveralFieldsContract, EveryKernel(), KernelCaseName);

// Linux 5.10 and 6.1 accept some of these ranges. svcmapd does not rely on the error, because its
// ranges are disjoint (S-120).
TEST_P(SeveralFieldsContract, OverlappingRangesAreRejected) {
  CreateTable();
  Add({Sources(1, 0x100, 0x1ff)});
  const std::pair<uint32_t, uint32_t> kCases[] = {{0x120, 0x140}, {0x180, 0x280}, {0x80, 0x180},
                                                  {0x100, 0x17f}, {0x180, 0x1ff}, {0x100, 0x2ff},
                                                  {0x1ff, 0x1ff}, {0x100, 0x100}};
  std::vector<std::string> accepted;
  for (const auto& [first, last] : kCases) {
    const std::string name =
        absl::StrCat(absl::Hex(first, absl::kZeroPad3), "-", absl::Hex(last, absl::kZeroPad3));
    SCOPED_TRACE(name);
    const Row row = Sources(1, first, last);
    if (OldKernelCommits(Addition(row))) {
      accepted.push_back(name);
      Transaction again;
      again.DropTable(family());
      again.CreateTable({family()});
      again.Add(Sources(1, 0x100, 0x1ff));
      Commit(again);
      continue;
    }
    ExpectAdditionRejected(row, absl::StatusCode::kAlreadyExists);
  }
  if (!accepted.empty()) {
    GTEST_SKIP() << NotApplicable(
        absl::StrCat("the kernel accepts ranges that overlap the range 100-1ff: ",
                     absl::StrJoin(accepted, ", ")));
  }
}

TEST_P(SeveralFieldsContract, DeletingWhatIsNotThereIsRejected) {
  CreateTable();
  Add({Sources(1, 0x100, 0x1ff)});
  ExpectRejected(Changes({Sources(2, 0x100, 0x1ff)}, {}), absl::StatusCode::kNotFound, 0);
  ExpectRejected(Changes({Sources(1, 0x200, 0x2ff)}, {}), absl::StatusCode::kNotFound, 0);
}

TEST_P(SeveralFieldsContract, ARejectedBatchUndoesRanges) {
  CreateTable();
  Add({Sources(1, 0x100, 0x1ff)});
  Transaction transaction;
  transaction.Delete(Sources(1, 0x100, 0x1ff));
  transaction.Add(Sources(1, 0x100, 0x2ff));
  transaction.Delete(Sources(3, 0x100, 0x2ff));
  ExpectRejected(transaction, absl::StatusCode::kNotFound, 2);
}

TEST_P(SeveralFieldsContract, AKeyFindsTheRangeItLiesIn) {
  CreateTable();
  const Row row = Sources(1, 0x100, 0x1ff);
  Add({row});
  for (const uint32_t key : {0x100u, 0x120u, 0x1ffu}) {
    EXPECT_THAT(ReadOne(Sources(1, key, key)), Optional(row.Read())) << key;
  }
  EXPECT_EQ(ReadOne(Sources(1, 0xff, 0xff)), std::nullopt);
  EXPECT_EQ(ReadOne(Sources(1, 0x200, 0x200)), std::nullopt);
  EXPECT_EQ(ReadOne(Sources(2, 0x100, 0x1ff)), std::nullopt);
}

TEST_P(SeveralFieldsContract, EndElementsAreRejected) {
  CreateTable();
  Row end = Sources(1, 0x100, 0x1ff);
  end.interval_end = true;
  if (OldKernelCommits(Addition(end))) {
    GTEST_SKIP() << NotApplicable("the kernel accepts an end element in a set with several fields");
  }
  ExpectAdditionRejected(end, absl::StatusCode::kInvalidArgument);
}

TEST_P(SeveralFieldsContract, AnOrdinarySetHasNoRanges) {
  CreateTable();
  Row row = testing::ClusterIpRow(family(), 1);
  row.key_end = row.key;
  if (OldKernelCommits(Addition(row))) {
    GTEST_SKIP() << NotApplicable("the kernel accepts a last key in a set without ranges");
  }
  ExpectAdditionRejected(row, absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace svcmap::nft
