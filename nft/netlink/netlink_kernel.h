// The real kernel. Opens its socket in the calling thread's network namespace and stays there.
// One thread at a time.
#pragma once

#include <functional>
#include <memory>

#include "nft/model/kernel.h"
#include "nft/netlink/batch.h"
#include "nft/netlink/socket.h"

namespace svcmap::nft {

class NetlinkKernel final : public Kernel {
 public:
  // `tables` by Index(Family); names and sets that transactions refer to.
  static absl::StatusOr<std::unique_ptr<NetlinkKernel>> Open(TableSpecs tables);

  ApplyResult Apply(const Transaction& transaction) override;
  absl::StatusOr<bool> HasTable(Family family) override;
  absl::StatusOr<std::vector<Element>> ReadSet(SetRef set) override;
  absl::StatusOr<std::optional<Element>> ReadElement(SetRef set,
                                                     std::span<const uint8_t> key) override;
  absl::StatusOr<uint32_t> Generation() override;

  uint32_t port_id() const { return socket_.port_id(); }

 private:
  NetlinkKernel(TableSpecs tables, Socket socket)
      : tables_(std::move(tables)), socket_(std::move(socket)) {}

  ApplyResult AwaitVerdict(const Batch& batch);

  // The generation id at a moment when no batch is under way.
  absl::StatusOr<uint32_t> SettledGeneration();

  // Sends one request and calls on_message for each answer until the acknowledgement or the end of
  // the dump. kUnavailable when a dump was disturbed by a commit.
  absl::Status Request(const nlmsghdr* request,
                       const std::function<void(const nlmsghdr*)>& on_message);
  nlmsghdr* PrepareRequest(uint8_t* buffer, uint16_t type, Family family, uint16_t flags);

  TableSpecs tables_;
  Socket socket_;
  uint32_t sequence_ = 1;
};

}  // namespace svcmap::nft
