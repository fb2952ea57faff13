// The bytes of one nf_tables batch: messages between NFNL_MSG_BATCH_BEGIN and NFNL_MSG_BATCH_END,
// which the kernel applies completely or not at all. Only the last message requests an
// acknowledgement, because 256 acknowledgements overflow the default receive buffer of a socket.
#pragma once

#include <libmnl/libmnl.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "nft/model/table.h"
#include "nft/model/transaction.h"

namespace svcmap::nft {

class Batch {
 public:
  // The first message has the sequence number `first_sequence`.
  Batch(const TableSpecs& tables, uint32_t first_sequence);

  void Append(const Transaction& transaction);
  void Finish();  // Completes the batch. Call once, after all Append calls.

  std::span<const uint8_t> bytes() const { return {buffer_.get(), size_}; }
  uint32_t first_sequence() const { return first_sequence_; }
  uint32_t next_sequence() const { return sequence_; }
  // Returns the sequence number of the last message. The acknowledgement of this message means that
  // the complete batch is committed.
  uint32_t last_sequence() const { return last_sequence_; }

  // Returns the index of the element to which an extended acknowledgement refers. `offset` is the
  // byte offset in the message with sequence number `sequence`. Returns nullopt if this message
  // contains no elements.
  std::optional<size_t> ElementAt(uint32_t sequence, uint32_t offset) const;

  // Describes the message for errors, such as "add to endpoints".
  std::string Describe(uint32_t sequence) const;

 private:
  struct Sent {
    size_t offset;         // Offset of the message in the buffer.
    size_t first_element;  // Index of the message's first element in the transaction.
    size_t element_count;  // Number of elements in the message. May be 0.
    std::string what;      // Empty for elements of a transaction, which Describe() reads.
  };

  // Appends a message header and reserves `headroom` bytes for attributes.
  nlmsghdr* Begin(uint16_t type, Family family, uint16_t flags, size_t headroom, std::string what);
  void End(const nlmsghdr* header);
  void Reserve(size_t size);
  void Envelope(uint16_t type);

  void AddTable(const TableSpec& table, bool drop);
  void RepairChains(const TableSpec& table, const ChainRepair& repair);
  void DeleteRules(const TableSpec& table, const std::string& chain);
  void DeleteSet(const TableSpec& table, const std::string& name);
  void DeleteChain(const TableSpec& table, const std::string& name);
  void DeleteObject(const TableSpec& table, const ForeignObject& object);
  void AddSet(const TableSpec& table, const SetSpec& spec);
  void AddChain(const TableSpec& table, const ChainSpec& chain);
  void AddRule(const TableSpec& table, const RuleSpec& rule);
  uint32_t AddAnonymousSet(const TableSpec& table, const AnonymousSet& set,
                           const std::string& name);
  void AddElements(const Transaction& transaction);

  const TableSpecs& tables_;
  std::unique_ptr<uint8_t[]> buffer_;  // Not initialized beyond size_.
  size_t capacity_ = 0;
  size_t size_ = 0;
  uint32_t first_sequence_;
  uint32_t sequence_;
  uint32_t last_sequence_ = 0;
  uint32_t next_set_id_ = 1;
  std::vector<Sent> sent_;  // All messages, indexed by sequence - first_sequence_.
};

}  // namespace svcmap::nft
