// Kernel implementation for the real nf_tables. NetlinkKernel opens all sockets in the network
// namespace of the thread that called Open. Only one thread may call a method at a time.
#pragma once

#include <functional>
#include <memory>

#include "nft/model/kernel.h"
#include "nft/netlink/batch.h"
#include "nft/netlink/session.h"

namespace svcmap::nft {

class TableReader;

class NetlinkKernel : public Kernel {
 public:
  // `tables` is indexed by Index(Family) and defines the names and sets that transactions refer to.
  static absl::StatusOr<std::unique_ptr<NetlinkKernel>> Open(TableSpecs tables,
                                                             SessionOptions options = {});

  ApplyResult Apply(const Transaction& transaction) override;
  absl::StatusOr<bool> HasTable(Family family) override;
  absl::StatusOr<std::vector<Element>> ReadSet(SetRef set) override;
  absl::StatusOr<std::vector<std::optional<Element>>> ReadElements(
      SetRef set, std::span<const FieldBytes> keys) override;
  absl::StatusOr<std::optional<TableContent>> ReadTable(Family family) override;
  // Name suffix of the dormant table that ReferenceContent creates, reads and deletes.
  static constexpr char kReferenceSuffix[] = "-reference";
  absl::StatusOr<TableContent> ReferenceContent(const TableSpec& spec) override;
  absl::StatusOr<uint32_t> Generation() override { return session_.Generation(); }

  // Waits until no process has a commit in progress, and returns the generation id.
  absl::StatusOr<uint32_t> SettledGeneration() { return session_.SettledGeneration(); }

 protected:
  NetlinkKernel(TableSpecs tables, Session session)
      : tables_(std::move(tables)), session_(std::move(session)) {}

 private:
  ApplyResult ApplyOnce(const Transaction& transaction, bool& transient);
  ApplyResult AwaitVerdict(const Batch& batch, bool& transient);

  absl::StatusOr<std::optional<uint64_t>> ReadCount(SetRef set);
  absl::Status ReadAll(SetRef set, std::span<const FieldBytes> keys,
                       std::span<std::optional<Element>> elements);
  // Sends requests for a limited number of keys, so that the responses fit into the receive buffer.
  // Sets `answered` for each key that got a response.
  absl::Status ReadSome(SetRef set, std::span<const FieldBytes> keys,
                        std::span<std::optional<Element>> elements, std::vector<bool>& answered);
  // Returns false if the table does not exist.
  absl::StatusOr<bool> RequestTable(Family family, TableReader& reader);

  nlmsghdr* Prepare(uint8_t* buffer, uint16_t type, Family family, uint16_t flags);

  TableSpecs tables_;
  Session session_;
};

}  // namespace svcmap::nft
