// Tests that a map with a fixed size of N accepts exactly N elements.
#include "tests/contract/kernel_contract.h"

namespace svcmap::nft {
namespace {

using ::svcmap::testing::ClusterIpRow;
using ::svcmap::testing::ServiceRow;
using ::testing::UnorderedElementsAre;

class SizeContract : public KernelContract {};
INSTANTIATE_TEST_SUITE_P(All, SizeContract, EveryKernel(), KernelCaseName);

TEST_P(SizeContract, ASizedMapTakesItsSizeAndNotOneMore) {
  CreateTable(3);
  Add({ServiceRow(family(), 1), ServiceRow(family(), 2)});
  Transaction transaction;
  transaction.Add(ServiceRow(family(), 3));
  transaction.Add(ServiceRow(family(), 4));
  ExpectRejected(transaction, absl::StatusCode::kOutOfRange, 1);
  Add({ServiceRow(family(), 3)});
  Transaction one_more;
  one_more.Add(ServiceRow(family(), 4));
  ExpectRejected(one_more, absl::StatusCode::kOutOfRange, 0);
}

TEST_P(SizeContract, AFullMapTakesReplacementsAndRepeats) {
  CreateTable(2);
  Add({ServiceRow(family(), 1), ServiceRow(family(), 2)});
  Transaction transaction;
  transaction.Delete(ServiceRow(family(), 1));
  transaction.Add(ServiceRow(family(), 3));
  transaction.Add(ServiceRow(family(), 2));  // This element already exists.
  Commit(transaction);
  EXPECT_THAT(Read(proxy::kServiceIps),
              UnorderedElementsAre(ServiceRow(family(), 2).Read(), ServiceRow(family(), 3).Read()));
}

TEST_P(SizeContract, AFullMapTakesNoAdditionBeforeTheDeletion) {
  CreateTable(1);
  Add({ServiceRow(family(), 1)});
  Transaction transaction;
  transaction.Add(ServiceRow(family(), 2));
  transaction.Delete(ServiceRow(family(), 1));
  ExpectRejected(transaction, absl::StatusCode::kOutOfRange, 0);
}

TEST_P(SizeContract, RejectedAdditionsDoNotUseUpTheSize) {
  CreateTable(2);
  for (int i = 0; i < 5; ++i) {
    Transaction transaction;
    transaction.Add(ServiceRow(family(), 1));
    transaction.Add(ServiceRow(family(), 2));
    transaction.Delete(ServiceRow(family(), 3));
    ExpectRejected(transaction, absl::StatusCode::kNotFound, 2);
  }
  Add({ServiceRow(family(), 1), ServiceRow(family(), 2)});
}

TEST_P(SizeContract, SetsWithoutASizeGrow) {
  CreateTable(1);
  std::vector<Row> rows;
  for (uint32_t i = 0; i < 3000; ++i) rows.push_back(ClusterIpRow(family(), i));
  Add(rows);
  EXPECT_EQ(Read(proxy::kClusterIps).size(), rows.size());
}

TEST_P(SizeContract, SizeZeroIsNoLimit) {
  CreateTable(0);
  std::vector<Row> rows;
  for (uint32_t i = 0; i < 3000; ++i) rows.push_back(ServiceRow(family(), i));
  Add(rows);
  EXPECT_EQ(Read(proxy::kServiceIps).size(), rows.size());
}

}  // namespace
}  // namespace svcmap::nft
