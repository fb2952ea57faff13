// Builds a ForeignChange from the notifications of one transaction. Memory use is bounded: for
// large transactions, only counts are recorded.
#pragma once

#include <libmnl/libmnl.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "nft/model/foreign_change.h"
#include "nft/model/table.h"

namespace svcmap::nft {

class ChangeReader {
 public:
  // `tables` are our tables. Tables and sets are matched by name.
  explicit ChangeReader(TableSpecs tables) : tables_(std::move(tables)) {}

  // Processes any nf_tables notification except NFT_MSG_NEWGEN. Skips notifications about other
  // tables.
  void Read(const nlmsghdr* message);

  // Returns the changes processed since the previous call, or nullopt if none concerned our tables.
  // `generation` is the NFT_MSG_NEWGEN message that ended the transaction.
  std::optional<ForeignChange> Take(const nlmsghdr* generation);

  void Forget();

 private:
  struct Count {
    size_t count = 0;
    std::map<std::string, size_t> names;  // Contains at most kMaxNames names.
    bool more_names = false;
  };

  void ReadElementChange(const nlmsghdr* message, const TableSpec& table, bool added);
  void Touch(SetRef set, const std::vector<uint8_t>& key);
  void TouchSet(SetRef set);
  void Notify(unsigned type, size_t count, const std::string& name);
  std::string Text() const;

  TableSpecs tables_;
  ForeignChange change_;
  bool overflowed_ = false;
  std::map<size_t, Count> counts_;  // Keyed by index of the kind of change.
};

}  // namespace svcmap::nft
