// The real kernel. Opens its socket in the calling thread's network namespace and stays there.
// One thread at a time.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "nft/model/kernel.h"
#include "nft/netlink/batch.h"
#include "nft/netlink/socket.h"

namespace svcmap::nft {

class TableReader;

class NetlinkKernel final : public Kernel {
 public:
  // `tables` by Index(Family); names and sets that transactions refer to.
  static absl::StatusOr<std::unique_ptr<NetlinkKernel>> Open(TableSpecs tables);

  ApplyResult Apply(const Transaction& transaction) override;
  absl::StatusOr<bool> HasTable(Family family) override;
  absl::StatusOr<std::vector<Element>> ReadSet(SetRef set) override;
  absl::StatusOr<std::vector<std::optional<Element>>> ReadElements(
      SetRef set, std::span<const FieldBytes> keys) override;
  absl::StatusOr<std::optional<TableContent>> ReadTable(Family family) override;
  // Makes a table of another name that no packet sees, reads it and removes it.
  absl::StatusOr<TableContent> ReferenceContent(const TableSpec& spec) override;
  absl::StatusOr<uint32_t> Generation() override;

  uint32_t port_id() const { return socket_.port_id(); }

 private:
  // The kernel works a batch off before send returns, so answers are normally there at once.
  static constexpr std::chrono::milliseconds kAnswerTimeout{5000};

  NetlinkKernel(TableSpecs tables, Socket socket)
      : tables_(std::move(tables)), socket_(std::move(socket)) {}

  ApplyResult AwaitVerdict(const Batch& batch);

  absl::Status ReadSome(SetRef set, std::span<const FieldBytes> keys,
                        std::span<std::optional<Element>> elements);
  // False if the table is not there.
  absl::StatusOr<bool> AskForTable(Family family, TableReader& reader);

  // Calls `read` until no commit came in between; kUnavailable from it has the same effect.
  absl::Status AsOfOneGeneration(const std::function<absl::Status()>& read);

  // The generation id at a moment when no batch is under way.
  absl::StatusOr<uint32_t> SettledGeneration();

  // Sends one request and calls on_message for each answer until the acknowledgement or the end of
  // the dump. kUnavailable when a dump was disturbed by a commit.
  absl::Status Request(const nlmsghdr* request,
                       const std::function<void(const nlmsghdr*)>& on_message);
  // What an NLMSG_ERROR message says; OK if it is an acknowledgement.
  static absl::Status ErrorStatus(const nlmsghdr* message, const std::string& what);
  nlmsghdr* PrepareRequest(uint8_t* buffer, uint16_t type, Family family, uint16_t flags);

  TableSpecs tables_;
  Socket socket_;
  uint32_t sequence_ = 1;
};

}  // namespace svcmap::nft
