// Reads the packet counters of set elements through a separate socket, so that reading neither
// waits for commits nor delays commits. Only one thread may call a method at a time.
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
  // Opens the socket in the calling thread's network namespace.
  static absl::StatusOr<std::unique_ptr<CounterReader>> Open(TableSpecs tables);

  // Returns the counters of a dynamic set, or an empty vector if the set does not exist. If
  // elements are added or removed during the dump, the result may be incomplete. The time of a dump
  // is quadratic in the number of elements.
  absl::StatusOr<std::vector<ElementCount>> Read(SetRef set);

 private:
  CounterReader(TableSpecs tables, Session session)
      : tables_(std::move(tables)), session_(std::move(session)) {}

  absl::Status ReadOnce(SetRef set, std::vector<ElementCount>& counts);

  TableSpecs tables_;
  Session session_;
};

}  // namespace svcmap::nft
