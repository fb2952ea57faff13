// Tests of the creation and deletion of complete tables.
#include "tests/contract/kernel_contract.h"

namespace svcmap::nft {
namespace {

using ::svcmap::testing::ServiceRow;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

class TableContract : public KernelContract {};
INSTANTIATE_TEST_SUITE_P(All, TableContract, EveryKernel(), KernelCaseName);

TEST_P(TableContract, CreatedTableIsThereAndEmpty) {
  EXPECT_FALSE(HasTable(family()));
  CreateTable();
  EXPECT_TRUE(HasTable(family()));
  EXPECT_FALSE(HasTable(other_family()));
  for (const auto& elements : ReadAll()) EXPECT_THAT(elements, IsEmpty());
}

TEST_P(TableContract, DroppedTableIsGoneWithItsElements) {
  CreateTable();
  Add({ServiceRow(family(), 1)});
  DropTable(family());
  EXPECT_FALSE(HasTable(family()));
  CreateTable();
  EXPECT_THAT(Read(proxy::kServiceIps), IsEmpty());
}

TEST_P(TableContract, DroppingAMissingTableIsNoError) {
  DropTable(family());
  EXPECT_FALSE(HasTable(family()));
}

TEST_P(TableContract, TheFamiliesDoNotMeet) {
  Transaction both = Creation();
  both.CreateTable({other_family()});
  both.Add(ServiceRow(family(), 1));
  both.Add(ServiceRow(other_family(), 2));
  Commit(both);
  DropTable(other_family());
  EXPECT_THAT(Read(proxy::kServiceIps), ElementsAre(ServiceRow(family(), 1).Read()));
}

TEST_P(TableContract, RecreationReplacesEverythingAtOnce) {
  CreateTable();
  Add({ServiceRow(family(), 1)});
  Transaction recreate = Creation();
  recreate.DropTable(family());  // Drops take effect first, regardless of the order of calls.
  recreate.Add(ServiceRow(family(), 2));
  recreate.Add(ServiceRow(family(), 3));
  Commit(recreate);
  EXPECT_THAT(Read(proxy::kServiceIps),
              UnorderedElementsAre(ServiceRow(family(), 2).Read(), ServiceRow(family(), 3).Read()));
}

TEST_P(TableContract, RejectedRecreationLeavesTheOldTable) {
  CreateTable();
  Add({ServiceRow(family(), 1)});
  Transaction recreate = Creation();
  recreate.DropTable(family());
  recreate.Add(ServiceRow(family(), 2));
  recreate.Delete(ServiceRow(family(), 1));  // This element is deleted with the old table.
  ExpectRejected(recreate, absl::StatusCode::kNotFound, 1);
  EXPECT_THAT(Read(proxy::kServiceIps), ElementsAre(ServiceRow(family(), 1).Read()));
}

TEST_P(TableContract, RejectedCreationLeavesNoTable) {
  Transaction creation = Creation();
  creation.Delete(ServiceRow(family(), 1));
  ExpectRejected(creation, absl::StatusCode::kNotFound, 0);
  EXPECT_FALSE(HasTable(family()));
}

}  // namespace
}  // namespace svcmap::nft
