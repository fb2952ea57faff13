// The bytes of one nf_tables batch: messages between NFNL_MSG_BATCH_BEGIN and _END, which the
// kernel takes whole or not at all. Only the last message asks for an acknowledgement: 256 of them
// overflow a socket's default receive buffer.
#pragma once

#include <libmnl/libmnl.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "nft/model/table.h"
#include "nft/model/transaction.h"

namespace svcmap::nft {

class Batch {
 public:
  // Sequence numbers start at `first_sequence`.
  Batch(const TableSpecs& tables, uint32_t first_sequence);

  void Append(const Transaction& transaction);
  void Finish();  // Once, last.

  std::span<const uint8_t> bytes() const { return {buffer_.data(), size_}; }
  uint32_t first_sequence() const { return first_sequence_; }
  uint32_t next_sequence() const { return sequence_; }
  // The message whose acknowledgement means that all is committed.
  uint32_t last_sequence() const { return last_sequence_; }

  // The transaction's element at `offset` bytes into the message `sequence`, as the kernel's
  // extended acknowledgement names it; nothing if it is another kind of message.
  std::optional<size_t> ElementAt(uint32_t sequence, uint32_t offset) const;

  // What the message does, for errors: "add elements to endpoints".
  std::string Describe(uint32_t sequence) const;

 private:
  struct Sent {
    size_t offset;         // In the buffer.
    size_t first_element;  // Of element messages.
    size_t element_count;  // 0: no element message.
    std::string what;
  };

  // A message header with room for `headroom` bytes of attributes behind it.
  nlmsghdr* Begin(uint16_t type, Family family, uint16_t flags, size_t headroom, std::string what);
  void End(const nlmsghdr* header);
  void Envelope(uint16_t type);

  void AddTable(const TableSpec& table, bool drop);
  // Deletes all rules, and the sets that no rule writes to.
  void EmptyTable(const TableSpec& table);
  void RepairChains(const TableSpec& table, const ChainRepair& repair);
  // Of one chain; an empty name means all chains.
  void DeleteRules(const TableSpec& table, const std::string& chain);
  void DeleteSet(const TableSpec& table, const std::string& name);
  void DeleteChain(const TableSpec& table, const std::string& name);
  void AddSet(const TableSpec& table, uint32_t index, uint32_t size);
  void AddChain(const TableSpec& table, const ChainSpec& chain);
  void AddRule(const TableSpec& table, const RuleSpec& rule);
  uint32_t AddAnonymousSet(const TableSpec& table, const AnonymousSet& set,
                           const std::string& name);
  void AddElements(const Transaction& transaction);

  const TableSpecs& tables_;
  std::vector<uint8_t> buffer_;
  size_t size_ = 0;
  uint32_t first_sequence_;
  uint32_t sequence_;
  uint32_t last_sequence_ = 0;
  uint32_t next_set_id_ = 1;
  std::vector<Sent> sent_;  // By sequence - first_sequence_.
};

}  // namespace svcmap::nft
