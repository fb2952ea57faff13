// Tests of dumps that are read in portions, with changes between the portions.
#include "proxy/reconcile/row_reader.h"

#include <gmock/gmock.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/unit/proxy/reconciler_world.h"

namespace svcmap::proxy {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace)
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Not;

class RowReaderTest : public ReconcilerTest {
 protected:
  static constexpr int kServices = 20;

  static std::string Name(int number) { return "shop/s" + std::to_string(number); }
  static AService Numbered(int number) {
    return AService(Name(number)).At("10.96.0." + std::to_string(number + 1)).Port(80);
  }
  RowReaderTest() {
    std::vector<Change> changes = {AServiceCidr("c", {"10.96.0.0/16"})};
    for (int i = 0; i < kServices; ++i) {
      changes.push_back(Numbered(i));
      changes.push_back(Slice(Name(i), 3, i + 1));
    }
    Settle(changes);
  }

  // Reads one Service per portion, and calls `between` after each portion.
  nft::Transaction ReadInPortions(RowReader::Rows rows,
                                  const std::function<void(int portion)>& between) {
    RowReader reader(rows);
    portions_ = 0;
    while (!reader.Read(reconciler_, {})) {
      reader.Merge();
      between(++portions_);
    }
    reader.Merge();
    return reader.Take();
  }

  int portions_ = 0;
};

TEST_F(RowReaderTest, PortionsGiveTheSameRows) {
  const auto nothing = [](int) {};
  EXPECT_EQ(Additions(ReadInPortions(RowReader::Rows::kDesired, nothing)), Contents(kernel_));
  EXPECT_GE(portions_, kServices);
  EXPECT_EQ(Additions(ReadInPortions(RowReader::Rows::kApplied, nothing)), Contents(kernel_));
  EXPECT_GE(portions_, kServices);
  EXPECT_TRUE(ReadInPortions(RowReader::Rows::kPending, nothing).empty());

  std::vector<Change> changes = {AServiceCidr("d", {"10.97.0.0/16"}), NoService(Name(3))};
  for (int i = 4; i < 9; ++i) changes.push_back(Slice(Name(i), 2, i + 1));
  changes.push_back(AService("shop/new").At("10.96.1.1").Port(80).Affinity(60));
  Apply(changes);
  const Lines pending = Operations(PendingRows(reconciler_));
  EXPECT_EQ(Operations(ReadInPortions(RowReader::Rows::kPending, nothing)), pending);
  EXPECT_GE(portions_, 7);
  const Lines desired = Additions(ReadInPortions(RowReader::Rows::kDesired, nothing));
  Sync();
  EXPECT_EQ(Contents(kernel_), desired);
  ExpectConverged();
}

// A Service that does not change is complete in a dump, whatever happens to other Services.
TEST_F(RowReaderTest, CommitsBetweenPortionsDoNotAffectOtherServices) {
  for (const RowReader::Rows rows : {RowReader::Rows::kDesired, RowReader::Rows::kApplied}) {
    const Lines before = Contents(kernel_);
    const nft::Transaction read = ReadInPortions(rows, [&](int portion) {
      const int number = portion % kServices;
      if (number % 2 == 0) return;
      // Services with odd numbers are removed, are added again, and change.
      Apply({NoService(Name(number)), NoSlice(Name(number) + "-1")});
      Sync();
      if (portion % 3 != 0) Apply({Numbered(number), Slice(Name(number), portion % 5, number + 1)});
      if (portion % 4 != 0) Sync();
    });
    Lines stable;
    for (const std::string& line : before) {
      for (int i = 0; i < kServices; i += 2) {
        if (line.find("10." + std::to_string(i + 1) + ".0.") != std::string::npos) {
          stable.push_back(line);
          break;
        }
      }
    }
    ASSERT_THAT(stable, Not(IsEmpty()));
    EXPECT_THAT(Additions(read), IsSupersetOf(stable));
    std::vector<Change> restored;
    for (int i = 0; i < kServices; ++i) {
      restored.push_back(Numbered(i));
      restored.push_back(Slice(Name(i), 3, i + 1));
    }
    Apply(restored);
    Sync();
    ExpectConverged();
  }
}

}  // namespace
}  // namespace svcmap::proxy
