// The real kernel. Opens its sockets in the network namespace of the thread that called Open,
// whichever thread needs one. One thread at a time.
#pragma once

#include <functional>
#include <memory>

#include "nft/model/kernel.h"
#include "nft/netlink/batch.h"
#include "nft/netlink/session.h"

namespace svcmap::nft {

class TableReader;

class NetlinkKernel final : public Kernel {
 public:
  // `tables` by Index(Family); names and sets that transactions refer to.
  static absl::StatusOr<std::unique_ptr<NetlinkKernel>> Open(TableSpecs tables,
                                                             SessionOptions options = {});

  ApplyResult Apply(const Transaction& transaction) override;
  absl::StatusOr<bool> HasTable(Family family) override;
  absl::StatusOr<std::vector<Element>> ReadSet(SetRef set) override;
  absl::StatusOr<std::vector<std::optional<Element>>> ReadElements(
      SetRef set, std::span<const FieldBytes> keys) override;
  absl::StatusOr<std::optional<TableContent>> ReadTable(Family family) override;
  // Makes a table of another name that no packet sees, reads it and removes it.
  static constexpr char kReferenceSuffix[] = "-reference";
  absl::StatusOr<TableContent> ReferenceContent(const TableSpec& spec) override;
  absl::StatusOr<uint32_t> Generation() override { return session_.Generation(); }

  // The generation id at a moment when no commit, of whomever, is under way.
  absl::StatusOr<uint32_t> SettledGeneration() { return session_.SettledGeneration(); }

 private:
  NetlinkKernel(TableSpecs tables, Session session)
      : tables_(std::move(tables)), session_(std::move(session)) {}

  ApplyResult ApplyOnce(const Transaction& transaction, bool& transient);
  ApplyResult AwaitVerdict(const Batch& batch, bool& transient);

  absl::Status ReadAll(SetRef set, std::span<const FieldBytes> keys,
                       std::span<std::optional<Element>> elements);
  // Asks for as many keys as are answered before the receive buffer is full; `answered` says which.
  absl::Status ReadSome(SetRef set, std::span<const FieldBytes> keys,
                        std::span<std::optional<Element>> elements, std::vector<bool>& answered);
  // False if the table is not there.
  absl::StatusOr<bool> AskForTable(Family family, TableReader& reader);

  nlmsghdr* Prepare(uint8_t* buffer, uint16_t type, Family family, uint16_t flags);

  TableSpecs tables_;
  Session session_;
};

}  // namespace svcmap::nft
