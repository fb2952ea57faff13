#include "nft/base/status.h"
#include "nft/netlink/netlink_kernel.h"

namespace svcmap::nft {

absl::StatusOr<TableContent> NetlinkKernel::ReferenceContent(const TableSpec& spec) {
  const Family family = spec.family;
  TableSpecs reference = tables_;
  reference[Index(family)] = spec;
  reference[Index(family)].name += kReferenceSuffix;
  reference[Index(family)].dormant = true;
  tables_.swap(reference);

  Transaction make, drop;
  make.DropTable(family);
  make.CreateTable({family, std::make_shared<TableSpec>(tables_[Index(family)])});
  drop.DropTable(family);
  const ApplyResult made = Apply(make);
  absl::StatusOr<std::optional<TableContent>> content =
      made.error.ok() ? ReadTable(family) : made.error;
  const ApplyResult dropped = Apply(drop);
  tables_.swap(reference);

  if (!content.ok()) return Annotate(content.status(), "create the reference table");
  if (!dropped.error.ok()) return Annotate(dropped.error, "delete the reference table");
  if (!*content) return absl::UnavailableError("another process deleted the reference table");
  (*content)->flags = 0;  // Removes the dormant flag of the reference table.
  return **std::move(content);
}

}  // namespace svcmap::nft
