// Reads what the elements of a set have counted, over a socket of its own: a reading waits for no
// commit and holds none up. One thread at a time.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nft/model/table.h"
#include "nft/model/transaction.h"
#include "nft/netlink/element_reader.h"
#include "nft/netlink/session.h"

namespace svcmap::nft {

class CounterReader {
 public:
  // In the network namespace of the calling thread.
  static absl::StatusOr<std::unique_ptr<CounterReader>> Open(TableSpecs tables);

  // Of a set that only rules write to; nothing if it is not there. Elements that come or go
  // meanwhile may be missing, and may hide another one. Costs O(n^2 / 32 KiB) in the kernel, as
  // every dump does.
  absl::StatusOr<std::vector<ElementCount>> Read(SetRef set);

 private:
  CounterReader(TableSpecs tables, Session session)
      : tables_(std::move(tables)), session_(std::move(session)) {}

  absl::Status ReadOnce(SetRef set, std::vector<ElementCount>& counts);

  TableSpecs tables_;
  Session session_;
};

}  // namespace svcmap::nft
