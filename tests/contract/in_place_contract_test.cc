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

class InPlaceContract : public KernelContract {
 protected:
  Transaction InPlace() const {
    Transaction transaction;
    transaction.CreateTable({.family = family(), .existing = svcmap::testing::DataSets()});
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

}  // namespace
}  // namespace svcmap::nft
