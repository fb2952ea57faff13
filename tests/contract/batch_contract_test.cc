// Tests of large batches and of the generation id.
#include "tests/contract/kernel_contract.h"

namespace svcmap::nft {
namespace {

using ::svcmap::testing::Address;
using ::svcmap::testing::ClusterIpRow;
using ::svcmap::testing::EndpointRow;
using ::svcmap::testing::ServiceRow;
using ::testing::Optional;

class BatchContract : public KernelContract {};
INSTANTIATE_TEST_SUITE_P(All, BatchContract, EveryKernel(), KernelCaseName);

TEST_P(BatchContract, AHundredThousandElementsInOneBatch) {
  constexpr uint32_t kCount = 100'000;
  Transaction transaction = Creation();
  for (uint32_t i = 0; i < kCount; ++i) {
    transaction.Add(EndpointRow(i / 10, i % 10, Address(family(), i), 8080));
  }
  Commit(transaction);
  for (const uint32_t i : {0u, 1u, 50'000u, kCount - 1}) {
    const Row row = EndpointRow(i / 10, i % 10, Address(family(), i), 8080);
    EXPECT_THAT(ReadOne(row), Optional(row.Read()));
  }
  EXPECT_EQ(Read(proxy::kEndpoints).size(), kCount);
}

// A message contains consecutive elements with the same set and the same operation. This test
// alternates between two sets, so each element needs a separate message. The acknowledgements of
// 6,000 messages would not fit into a socket's buffer.
TEST_P(BatchContract, ABatchOfThousandsOfMessages) {
  constexpr uint32_t kCount = 3000;
  CreateTable();
  Transaction transaction;
  for (uint32_t i = 0; i < kCount; ++i) {
    transaction.Add(ServiceRow(family(), i));
    transaction.Add(ClusterIpRow(family(), i));
  }
  Commit(transaction);
  EXPECT_EQ(Read(proxy::kServiceIps).size(), kCount);
  EXPECT_EQ(Read(proxy::kClusterIps).size(), kCount);
}

// Each invalid message causes a response. The socket receives the first responses and loses all
// other responses.
TEST_P(BatchContract, ABatchOfThousandsOfBadMessagesIsRejectedAndTheFirstIsNamed) {
  constexpr uint32_t kCount = 3000;
  CreateTable();
  Transaction transaction = Changes({}, {ClusterIpRow(family(), 1)});
  for (uint32_t i = 0; i < kCount; ++i) {
    transaction.Delete(ServiceRow(family(), i));
    transaction.Delete(ClusterIpRow(family(), i + 100));
  }
  ExpectRejected(transaction, absl::StatusCode::kNotFound, 1);
}

TEST_P(BatchContract, EachCommitThatChangesSomethingAddsOneToTheGeneration) {
  uint32_t generation = Generation();
  CreateTable();
  EXPECT_EQ(Generation(), ++generation);
  Add({ServiceRow(family(), 1), ServiceRow(family(), 2), ClusterIpRow(family(), 1)});
  EXPECT_EQ(Generation(), ++generation);
  Commit(Transaction());
  Add({ServiceRow(family(), 1).Comment("lost")});
  EXPECT_EQ(Read(proxy::kServiceIps).size(), 2u);
  EXPECT_NE(ReadOne(ServiceRow(family(), 1)), std::nullopt);
  EXPECT_TRUE(HasTable(family()));
  EXPECT_EQ(Generation(), generation);
  Transaction add_and_delete;
  add_and_delete.Add(ServiceRow(family(), 3));
  add_and_delete.Delete(ServiceRow(family(), 3));
  Commit(add_and_delete);
  EXPECT_EQ(Generation(), ++generation);
  CreateTable();
  EXPECT_EQ(Generation(), ++generation);
  for (int i = 0; i < 2; ++i) {  // The table does not exist in the second iteration.
    DropTable(family());
    EXPECT_EQ(Generation(), ++generation);
  }
}

}  // namespace
}  // namespace svcmap::nft
