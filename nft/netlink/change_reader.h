// Builds a ForeignChange from the notifications of one transaction. To limit memory use,
// ChangeReader records only counts for large transactions.
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
  // `tables` are svcmap's tables. ChangeReader matches tables and sets by name.
  explicit ChangeReader(TableSpecs tables) : tables_(std::move(tables)) {}

  // Processes any nf_tables notification except NFT_MSG_NEWGEN. Skips notifications about other
  // tables.
  void Read(const nlmsghdr* message);

  // Returns the changes processed since the previous call, or nullopt if svcmap's tables did not
  // change. `generation` is the NFT_MSG_NEWGEN message that ended the transaction.
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
  std::map<size_t, Count> counts_;  // Number of changes by index in kKinds.
};

}  // namespace svcmap::nft
