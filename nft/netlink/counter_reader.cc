#include "nft/netlink/counter_reader.h"

#include <linux/netfilter/nf_tables.h>

#include <algorithm>

#include "nft/base/status.h"
#include "nft/netlink/messages.h"

namespace svcmap::nft {
namespace {

constexpr size_t kCounterRequestSize = 512;  // Buffer size, larger than any request in this file.
constexpr int kMaxCounterReads = 5;

// Sorts `counts` by key. Returns true if a key is repeated. If the kernel rehashes the set during a
// dump, the dump repeats some elements and omits other elements.
bool SortAndFindRepeated(std::vector<ElementCount>& counts) {
  std::sort(counts.begin(), counts.end(),
            [](const ElementCount& a, const ElementCount& b) { return a.key < b.key; });
  return std::adjacent_find(counts.begin(), counts.end(),
                            [](const ElementCount& a, const ElementCount& b) {
                              return a.key == b.key;
                            }) != counts.end();
}

}  // namespace

absl::StatusOr<std::unique_ptr<CounterReader>> CounterReader::Open(TableSpecs tables) {
  absl::StatusOr<Session> session = Session::Open({});
  if (!session.ok()) return session.status();
  return std::unique_ptr<CounterReader>(new CounterReader(std::move(tables), *std::move(session)));
}

absl::StatusOr<std::vector<ElementCount>> CounterReader::Read(SetRef set) {
  std::vector<ElementCount> counts;
  absl::Status status;
  for (int attempt = 0; attempt < kMaxCounterReads; ++attempt) {
    counts.clear();
    status = ReadOnce(set, counts);
    if (absl::IsNotFound(status)) return std::vector<ElementCount>();
    if (status.ok() && !SortAndFindRepeated(counts)) return counts;
    if (status.ok()) {
      status = absl::UnavailableError("a set resize interrupted the dump");
    } else if (!absl::IsUnavailable(status)) {
      break;
    }
  }
  return Annotate(status, "read the counters of " + tables_[Index(set.family)].sets[set.set].name);
}

absl::Status CounterReader::ReadOnce(SetRef set, std::vector<ElementCount>& counts) {
  const TableSpec& table = tables_[Index(set.family)];
  alignas(nlmsghdr) uint8_t buffer[kCounterRequestSize];
  nlmsghdr* request =
      session_.Prepare(buffer, NFT_MSG_GETSETELEM, NfFamily(set.family), NLM_F_DUMP);
  mnl_attr_put_strz(request, NFTA_SET_ELEM_LIST_TABLE, table.name.c_str());
  mnl_attr_put_strz(request, NFTA_SET_ELEM_LIST_SET, table.sets[set.set].name.c_str());
  return session_.Ask(request, [&](const nlmsghdr* message) { ReadCounts(message, counts); });
}

}  // namespace svcmap::nft
