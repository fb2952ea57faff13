// No packet is lost while svcmapd repairs its tables, if the damage itself loses no packets.
#include "tests/loss/loss_world.h"
#include "tests/support/damage.h"

namespace svcmap::testing {
namespace {

class RepairLossTest : public LossTest {
 protected:
  absl::StatusOr<uint64_t> Repairs() {
    const absl::StatusOr<v1::GetStatusResponse> status = agent().GetStatus();
    if (!status.ok()) return status.status();
    return status->repairs();
  }

  // Damages the tables and waits until svcmapd has repaired the damage.
  absl::Status DamageAndRepair(const Damage& damage) {
    const absl::StatusOr<uint64_t> before = Repairs();
    if (!before.ok()) return before.status();
    const absl::StatusOr<std::string> script = damage.script(node().netns());
    if (!script.ok()) return script.status();
    if (absl::Status status = RunNft(node().netns(), *script); !status.ok()) return status;
    absl::Status status = Eventually("a repair of " + damage.name, [&] {
      const absl::StatusOr<uint64_t> now = Repairs();
      return now.ok() && *now > *before;
    });
    return status.ok() ? WaitUntilServing() : status;
  }
};

TEST_F(RepairLossTest, DamageThatInterruptsNoTraffic) {
  const char* const names[] = {"DeletedFilterRule", "AddedElements", "AddedRule",
                               "AddedSet",          "DeletedMarker", "DeletedFilterChain",
                               "FlushedSetOfRanges"};
  const int64_t rewrites = Rewrites(21);
  ASSERT_NO_FATAL_FAILURE(StartTraffic());
  for (int64_t i = 0; i < rewrites; ++i) {
    const Damage* const damage = FindDamage(names[static_cast<size_t>(i) % std::size(names)]);
    ASSERT_NE(damage, nullptr);
    ASSERT_FALSE(damage->interrupts) << damage->name;
    ASSERT_OK(DamageAndRepair(*damage)) << agent().log();
    ASSERT_OK(LetTrafficFlow());
  }
  ExpectNoLoss("repair", rewrites);
}

}  // namespace
}  // namespace svcmap::testing
