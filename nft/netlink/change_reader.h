// Puts a ForeignChange together from the notifications of one transaction. Bounded: of a
// transaction that touches very much only counts are kept.
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
  // Our tables; they and their sets are known by name.
  explicit ChangeReader(TableSpecs tables) : tables_(std::move(tables)) {}

  // Any notification of nf_tables but NFT_MSG_NEWGEN. Those about other tables are skipped.
  void Read(const nlmsghdr* message);

  // What was read since the last time; nothing if none of it was about us. `generation` is the
  // NFT_MSG_NEWGEN message that ended the transaction.
  std::optional<ForeignChange> Take(const nlmsghdr* generation);

  void Forget();

 private:
  struct Count {
    size_t count = 0;
    std::map<std::string, size_t> names;  // Few: kMaxNames at most.
    bool more_names = false;
  };

  void ReadElementChange(const nlmsghdr* message, const TableSpec& table, bool added);
  void Touch(SetRef set, const std::vector<uint8_t>& key);
  void TouchWhole(SetRef set);
  void Tell(unsigned type, size_t count, const std::string& name);
  std::string Text() const;

  TableSpecs tables_;
  ForeignChange change_;
  bool overflowed_ = false;
  std::map<size_t, Count> counts_;  // By position among the kinds of changes.
};

}  // namespace svcmap::nft
