// Tests of accepted and rejected elements, and of reading elements back.
#include "tests/contract/kernel_contract.h"

namespace svcmap::nft {
namespace {

using ::svcmap::testing::Address;
using ::svcmap::testing::ClusterIpRow;
using ::svcmap::testing::EndpointRow;
using ::svcmap::testing::ServiceRow;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Optional;

class ElementContract : public KernelContract {};
INSTANTIATE_TEST_SUITE_P(All, ElementContract, EveryKernel(), KernelCaseName);

TEST_P(ElementContract, AddedElementsReadBackWithDataAndComment) {
  CreateTable();
  const Row service =
      ServiceRow(family(), 1, 7).Comment(std::string(Transaction::kMaxComment, 'x'));
  const Row endpoint = EndpointRow(0x010203, 65534, Address(family(), 9), 65535);
  const Row cluster_ip = ClusterIpRow(family(), 1).Comment("ns/web");
  Add({service, endpoint, cluster_ip});
  EXPECT_THAT(Read(proxy::kServiceIps), ElementsAre(service.Read()));
  EXPECT_THAT(ReadOne(service), Optional(service.Read()));
  EXPECT_THAT(Read(proxy::kEndpoints), ElementsAre(endpoint.Read()));
  EXPECT_THAT(Read(proxy::kClusterIps), ElementsAre(cluster_ip.Read()));
}

TEST_P(ElementContract, DeletionLooksAtTheKeyOnly) {
  CreateTable();
  Add({ServiceRow(family(), 1, 7).Comment("one")});
  Commit(Changes({ServiceRow(family(), 1, 8).Comment("another")}, {}));
  EXPECT_THAT(Read(proxy::kServiceIps), IsEmpty());
}

TEST_P(ElementContract, OrderCounts) {
  CreateTable();
  Add({ServiceRow(family(), 1, 7)});
  Transaction add_first;
  add_first.Add(ServiceRow(family(), 1, 8));
  add_first.Delete(ServiceRow(family(), 1));
  ExpectRejected(add_first, absl::StatusCode::kAlreadyExists, 0);

  ExpectRejected(Changes({ServiceRow(family(), 2)}, {ServiceRow(family(), 2)}),
                 absl::StatusCode::kNotFound, 0);
}

TEST_P(ElementContract, AddingAgainTheSameIsNoError) {
  CreateTable();
  Add({ServiceRow(family(), 1), ClusterIpRow(family(), 1)});
  Add({ServiceRow(family(), 1), ClusterIpRow(family(), 1)});
  Commit(Changes({}, {ServiceRow(family(), 2), ServiceRow(family(), 2)}));
  EXPECT_EQ(Read(proxy::kServiceIps).size(), 2u);
  EXPECT_EQ(Read(proxy::kClusterIps).size(), 1u);
}

TEST_P(ElementContract, ElementsOfAMissingTableAreRejectedAndNoneIsNamed) {
  ExpectRejected(Changes({}, {ServiceRow(family(), 1)}), absl::StatusCode::kNotFound, std::nullopt);
  ExpectRejected(Changes({ServiceRow(family(), 1)}, {}), absl::StatusCode::kNotFound, std::nullopt);
}

TEST_P(ElementContract, OneBadElementInTheMiddleIsNamedAndNothingHappens) {
  CreateTable();
  Add({ServiceRow(family(), 1), ServiceRow(family(), 2)});
  Transaction transaction = Changes({ServiceRow(family(), 1)}, {});
  for (uint32_t i = 0; i < 500; ++i) {
    transaction.Add(EndpointRow(i, 0, Address(family(), i), 80));
  }
  transaction.Delete(ServiceRow(family(), 2));
  // The deletion with index 502 fails, because the element does not exist.
  transaction.Delete(ServiceRow(family(), 3));
  transaction.Delete(ServiceRow(family(), 4));  // The kernel reports the first invalid element.
  for (uint32_t i = 0; i < 500; ++i) transaction.Add(ClusterIpRow(family(), i));
  ExpectRejected(transaction, absl::StatusCode::kNotFound, 502);
}

TEST_P(ElementContract, ABadElementIsNamedInAnyMessageOfALargeBatch) {
  constexpr uint32_t kCount = 20'000;  // A dump of this many elements has about a dozen messages.
  CreateTable();
  Add({EndpointRow(17'123, 0, Address(family(), 5), 5)});
  Transaction transaction;
  for (uint32_t i = 1; i < kCount; ++i) {
    transaction.Add(EndpointRow(i, 0, Address(family(), i), 80));
  }
  ExpectRejected(transaction, absl::StatusCode::kAlreadyExists, 17'122);
}

TEST_P(ElementContract, ReadElementsAnswersInTheOrderOfTheKeys) {
  constexpr uint32_t kCount = 5'000;
  CreateTable();
  std::vector<Row> rows;
  for (uint32_t i = 0; i < kCount; i += 2) {
    rows.push_back(ServiceRow(family(), i, i + 1).Comment("service-" + std::to_string(i)));
  }
  Add(rows);
  std::vector<FieldBytes> keys;
  for (uint32_t i = kCount; i-- > 0;) keys.push_back(ServiceRow(family(), i).key);
  ASSERT_OK_AND_ASSIGN(const auto elements, kernel_->ReadElements(Set(proxy::kServiceIps), keys));
  ASSERT_EQ(elements.size(), kCount);
  for (uint32_t i = 0; i < kCount; ++i) {
    const auto& element = elements[kCount - 1 - i];
    ASSERT_EQ(element, i % 2 == 0 ? std::optional(rows[i / 2].Read()) : std::nullopt) << i;
  }
}

TEST_P(ElementContract, ReadElementsWithoutKeysTableOrElementsFindsNothing) {
  const std::vector<FieldBytes> keys = {ServiceRow(family(), 1).key, ServiceRow(family(), 2).key};
  ASSERT_OK_AND_ASSIGN(const auto no_table, kernel_->ReadElements(Set(proxy::kServiceIps), keys));
  EXPECT_THAT(no_table, ElementsAre(std::nullopt, std::nullopt));
  CreateTable();
  ASSERT_OK_AND_ASSIGN(const auto no_element, kernel_->ReadElements(Set(proxy::kServiceIps), keys));
  EXPECT_THAT(no_element, ElementsAre(std::nullopt, std::nullopt));
  ASSERT_OK_AND_ASSIGN(const auto no_key, kernel_->ReadElements(Set(proxy::kServiceIps), {}));
  EXPECT_THAT(no_key, IsEmpty());
}

TEST_P(ElementContract, ReadSetOfAMissingTableIsAnError) {
  EXPECT_EQ(kernel_->ReadSet(Set(proxy::kServiceIps)).status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace svcmap::nft
