// Tests of tables that are rewritten in place: elements added by rules are kept, and everything
// else is replaced.
#include "tests/contract/kernel_contract.h"

namespace svcmap::nft {
namespace {

using ::svcmap::testing::Address;
using ::svcmap::testing::ClusterIpRow;
using ::svcmap::testing::EndpointRow;
using ::svcmap::testing::RangeEnd;
using ::svcmap::testing::RangeStart;
using ::svcmap::testing::RecordRow;
using ::svcmap::testing::ServiceRow;
using ::svcmap::testing::SourceRow;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

class InPlaceContract : public KernelContract {
 protected:
  Transaction InPlace(const std::vector<uint32_t>& timers = {10800}) const {
    Transaction transaction;
    transaction.CreateTable(
        {.family = family(),
         .spec = std::make_shared<TableSpec>(proxy::MakeTable(family(), {}, timers)),
         .existing = svcmap::testing::DataSets()});
    return transaction;
  }
};
INSTANTIATE_TEST_SUITE_P(All, InPlaceContract, EveryKernel(), KernelCaseName);

TEST_P(InPlaceContract, OnlyRecordsStay) {
  CreateTable();
  const Row record = RecordRow(family(), 7, 1, 0x10001);
  Add({record, ServiceRow(family(), 1), ClusterIpRow(family(), 1),
       EndpointRow(1, 0, Address(family(), 9), 80), RangeStart(Address(family(), 0x100)),
       RangeEnd(Address(family(), 0x200)), SourceRow(family(), 1, 0x100, 0x1ff)});
  Commit(InPlace());
  for (uint8_t set = 0; set < proxy::kSetCount; ++set) {
    const auto elements = Read(static_cast<proxy::SetIndex>(set));
    if (set == proxy::kAffinity) {
      EXPECT_THAT(elements, ElementsAre(record.Read()));
    } else {
      EXPECT_THAT(elements, IsEmpty()) << unsigned{set};
    }
  }
}

TEST_P(InPlaceContract, TheBatchFillsTheNewSets) {
  CreateTable();
  Add({ServiceRow(family(), 1, 7), ServiceRow(family(), 2)});
  Transaction transaction = InPlace();
  transaction.Add(ServiceRow(family(), 1, 8));
  transaction.Add(ServiceRow(family(), 3));
  Commit(transaction);
  EXPECT_THAT(Read(proxy::kServiceIps), UnorderedElementsAre(ServiceRow(family(), 1, 8).Read(),
                                                             ServiceRow(family(), 3).Read()));
}

TEST_P(InPlaceContract, TimeoutsMayComeAndGo) {
  CreateTable();
  const Row record = RecordRow(family(), 7, 1, 0x10001);
  Add({record});
  Commit(InPlace({10800, 90, 86400}));
  Commit(InPlace({10800, 90, 86400}));
  Commit(InPlace({60}));
  EXPECT_THAT(Read(proxy::kAffinity), ElementsAre(record.Read()));
}

TEST_P(InPlaceContract, WithoutATableItIsRejected) {
  ExpectRejected(InPlace(), absl::StatusCode::kNotFound, std::nullopt);
  EXPECT_FALSE(HasTable(family()));
}

TEST_P(InPlaceContract, ARejectionLeavesEverythingAsItWas) {
  CreateTable();
  Add({RecordRow(family(), 7, 1, 0x10001), ServiceRow(family(), 1), ClusterIpRow(family(), 1)});
  Transaction transaction = InPlace();
  transaction.Add(ServiceRow(family(), 2));
  transaction.Delete(ServiceRow(family(), 1));  // This element is deleted with the old set.
  ExpectRejected(transaction, absl::StatusCode::kNotFound, 1);
}

TEST_P(InPlaceContract, AddsOneToTheGeneration) {
  CreateTable();
  const uint32_t generation = Generation();
  Commit(InPlace());
  EXPECT_EQ(Generation(), generation + 1);
}

}  // namespace
}  // namespace svcmap::nft
