// The part of NetlinkKernel that reads elements and tables.
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "nft/base/status.h"
#include "nft/netlink/answer.h"
#include "nft/netlink/element_reader.h"
#include "nft/netlink/messages.h"
#include "nft/netlink/netlink_kernel.h"
#include "nft/netlink/table_reader.h"

namespace svcmap::nft {
namespace {

constexpr size_t kRequestSize = 512;  // Buffer size, larger than any request in this file.

// A response takes about 1 KiB of the receive buffer, which holds about 200 responses by default.
constexpr size_t kMaxInFlight = 128;
constexpr int kMaxReadAttempts = 5;

// The kernel rehashes a hash table without a fixed size in the background after the table has grown
// or shrunk. A dump during rehashing usually repeats some elements and omits the same number of
// other elements. On Linux 6.18, about one dump in a thousand omits elements and repeats none, so
// ReadSet also compares the number of elements.
bool HasRepeatedKey(const std::vector<Element>& elements) {
  absl::flat_hash_set<std::pair<std::string_view, bool>> keys;
  keys.reserve(elements.size());
  return std::ranges::any_of(elements, [&](const Element& element) {
    const std::string_view key(reinterpret_cast<const char*>(element.key.data()),
                               element.key.size());
    return !keys.emplace(key, element.interval_end).second;
  });
}

void PutSet(nlmsghdr* request, const TableSpec& table, const SetSpec& set) {
  mnl_attr_put_strz(request, NFTA_SET_ELEM_LIST_TABLE, table.name.c_str());
  mnl_attr_put_strz(request, NFTA_SET_ELEM_LIST_SET, set.name.c_str());
}

void PutKey(nlmsghdr* request, std::span<const uint8_t> key) {
  nlattr* list = mnl_attr_nest_start(request, NFTA_SET_ELEM_LIST_ELEMENTS);
  nlattr* element = mnl_attr_nest_start(request, NFTA_LIST_ELEM);
  if (key.empty()) {
    mnl_attr_put_u32(request, NFTA_SET_ELEM_FLAGS, htobe32(NFT_SET_ELEM_CATCHALL));
  } else {
    nlattr* value = mnl_attr_nest_start(request, NFTA_SET_ELEM_KEY);
    mnl_attr_put(request, NFTA_DATA_VALUE, key.size(), key.data());
    mnl_attr_nest_end(request, value);
  }
  mnl_attr_nest_end(request, element);
  mnl_attr_nest_end(request, list);
}

}  // namespace

absl::StatusOr<bool> NetlinkKernel::HasTable(Family family) {
  TableReader reader(tables_[Index(family)].name);
  return RequestTable(family, reader);
}

absl::StatusOr<bool> NetlinkKernel::RequestTable(Family family, TableReader& reader) {
  alignas(nlmsghdr) uint8_t buffer[kRequestSize];
  nlmsghdr* request = Prepare(buffer, NFT_MSG_GETTABLE, family, 0);
  mnl_attr_put_strz(request, NFTA_TABLE_NAME, tables_[Index(family)].name.c_str());
  const absl::Status status =
      session_.Ask(request, [&](const nlmsghdr* message) { reader.AddTable(message); });
  if (absl::IsNotFound(status)) return false;
  if (!status.ok()) return status;
  return true;
}

// Element dumps never set NLM_F_DUMP_INTR (Linux 6.18), so only the generation id shows whether a
// commit happened during the dump. The generation id changes when a commit starts. Before each part
// of a dump, the kernel skips the number of elements that were already sent. If a commit is still
// adding or removing elements, the dump skips too few or too many elements. Therefore no commit may
// be in progress at the start or at the end of the dump.
absl::StatusOr<std::vector<Element>> NetlinkKernel::ReadSet(SetRef set) {
  const TableSpec& table = tables_[Index(set.family)];
  std::vector<Element> elements;
  const absl::Status status = session_.AsOfOneGeneration([&]() -> absl::Status {
    alignas(nlmsghdr) uint8_t buffer[kRequestSize];
    nlmsghdr* request = Prepare(buffer, NFT_MSG_GETSETELEM, set.family, NLM_F_DUMP);
    PutSet(request, table, table.sets[set.set]);
    elements.clear();
    absl::Status read = session_.Ask(
        request, [&](const nlmsghdr* message) { nft::ReadElements(message, elements); });
    if (!read.ok()) return read;
    const absl::StatusOr<std::optional<uint64_t>> count = ReadCount(set);
    if (!count.ok()) return count.status();
    if (HasRepeatedKey(elements) || count->value_or(elements.size()) != elements.size()) {
      return absl::UnavailableError("a set resize interrupted the dump");
    }
    return absl::OkStatus();
  });
  if (!status.ok()) return Annotate(status, "read set " + table.sets[set.set].name);
  return elements;
}

// Returns nullopt if the kernel does not report the number of elements (before Linux 6.16), if it
// counts ranges instead of elements, or if rules change the number.
absl::StatusOr<std::optional<uint64_t>> NetlinkKernel::ReadCount(SetRef set) {
  const TableSpec& table = tables_[Index(set.family)];
  const SetSpec& spec = table.sets[set.set];
  if (spec.has_bounds() || spec.dynamic_size != 0) return std::nullopt;
  alignas(nlmsghdr) uint8_t buffer[kRequestSize];
  nlmsghdr* request = Prepare(buffer, NFT_MSG_GETSET, set.family, 0);
  mnl_attr_put_strz(request, NFTA_SET_TABLE, table.name.c_str());
  mnl_attr_put_strz(request, NFTA_SET_NAME, spec.name.c_str());
  TableReader reader(table.name);
  const absl::Status status =
      session_.Ask(request, [&](const nlmsghdr* message) { reader.AddSet(message); });
  if (!status.ok()) return status;
  const TableContent content = reader.Take();
  const auto count = content.elements.find(spec.name);
  return count == content.elements.end() ? std::nullopt : std::optional(count->second);
}

absl::StatusOr<std::vector<std::optional<Element>>> NetlinkKernel::ReadElements(
    SetRef set, std::span<const FieldBytes> keys) {
  std::vector<std::optional<Element>> elements(keys.size());
  for (size_t begin = 0; begin < keys.size(); begin += kMaxInFlight) {
    const size_t count = std::min(kMaxInFlight, keys.size() - begin);
    const absl::Status status =
        ReadAll(set, keys.subspan(begin, count), std::span(elements).subspan(begin, count));
    if (!status.ok()) {
      return Annotate(status, "read from " + tables_[Index(set.family)].sets[set.set].name);
    }
  }
  return elements;
}

// Repeats requests that got no response. As long as each attempt gets some responses, ReadAll
// retries after any loss of responses. If an attempt gets no response, ReadAll retries only after a
// receive buffer overflow, a limited number of times.
absl::Status NetlinkKernel::ReadAll(SetRef set, std::span<const FieldBytes> keys,
                                    std::span<std::optional<Element>> elements) {
  std::vector<bool> answered(keys.size());
  int vain_attempts = 0;
  for (std::ptrdiff_t before = 0;;) {
    const absl::Status status = ReadSome(set, keys, elements, answered);
    if (status.ok()) return status;
    const std::ptrdiff_t now = std::count(answered.begin(), answered.end(), true);
    const bool progress = std::exchange(before, now) < now;
    const bool overflow = absl::IsResourceExhausted(status);
    const bool lost = overflow || absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
    if (progress ? !lost : !overflow || ++vain_attempts == kMaxReadAttempts) return status;
  }
}

// Sends one request per key, because the kernel stops at the first missing key of a request. All
// requests are in one datagram. Without NLM_F_ACK, each request gets exactly one response: the
// element or an error.
absl::Status NetlinkKernel::ReadSome(SetRef set, std::span<const FieldBytes> keys,
                                     std::span<std::optional<Element>> elements,
                                     std::vector<bool>& answered) {
  const TableSpec& table = tables_[Index(set.family)];
  std::vector<uint8_t> requests(keys.size() * kRequestSize);
  std::vector<size_t> asked;  // Indices into `keys`, in order of sequence numbers.
  const uint32_t first_sequence = session_.sequence();
  size_t size = 0;
  for (size_t i = 0; i < keys.size(); ++i) {
    if (answered[i]) continue;
    asked.push_back(i);
    nlmsghdr* request = Prepare(requests.data() + size, NFT_MSG_GETSETELEM, set.family, 0);
    PutSet(request, table, table.sets[set.set]);
    PutKey(request, keys[i].bytes());
    size += MNL_ALIGN(request->nlmsg_len);
  }
  if (const absl::Status sent = session_.Send({requests.data(), size}); !sent.ok()) return sent;

  absl::Status result;
  std::vector<bool> seen(asked.size());
  std::vector<Element> found;
  for (size_t left = asked.size(); left > 0;) {
    const absl::StatusOr<std::span<const uint8_t>> datagram = session_.Receive();
    if (!datagram.ok()) return datagram.status();
    for (const nlmsghdr* message : Messages(*datagram)) {
      const size_t position = message->nlmsg_seq - first_sequence;
      if (position >= asked.size() || seen[position]) continue;
      seen[position] = true;
      --left;
      if (message->nlmsg_type == NLMSG_ERROR) {
        const absl::Status error = ReadAnswer(message).ToStatus("send request to nf_tables");
        answered[asked[position]] = absl::IsNotFound(error);
        if (!absl::IsNotFound(error)) result.Update(error);
        continue;
      }
      answered[asked[position]] = true;
      found.clear();
      nft::ReadElements(message, found);
      if (!found.empty()) elements[asked[position]] = std::move(found.front());
    }
  }
  return result;
}

absl::StatusOr<std::optional<TableContent>> NetlinkKernel::ReadTable(Family family) {
  std::optional<TableContent> content;
  const absl::Status status = session_.AsOfOneGeneration([&]() -> absl::Status {
    TableReader reader(tables_[Index(family)].name);
    content.reset();
    const absl::StatusOr<bool> found = RequestTable(family, reader);
    if (!found.ok() || !*found) return found.status();
    struct Part {
      uint16_t type;
      // Table attribute by which the kernel filters the dump. The kernel ignores the attribute for
      // chains.
      uint16_t table_attribute;
      void (TableReader::*add)(const nlmsghdr*);
    };
    for (const Part& part :
         {Part{NFT_MSG_GETSET, NFTA_SET_TABLE, &TableReader::AddSet},
          Part{NFT_MSG_GETCHAIN, NFTA_CHAIN_TABLE, &TableReader::AddChain},
          Part{NFT_MSG_GETRULE, NFTA_RULE_TABLE, &TableReader::AddRule},
          Part{NFT_MSG_GETOBJ, NFTA_OBJ_TABLE, &TableReader::AddObject},
          Part{NFT_MSG_GETFLOWTABLE, NFTA_FLOWTABLE_TABLE, &TableReader::AddFlowtable}}) {
      alignas(nlmsghdr) uint8_t buffer[kRequestSize];
      nlmsghdr* request = Prepare(buffer, part.type, family, NLM_F_DUMP);
      mnl_attr_put_strz(request, part.table_attribute, tables_[Index(family)].name.c_str());
      absl::Status dumped =
          session_.Ask(request, [&](const nlmsghdr* message) { (reader.*part.add)(message); });
      if (!dumped.ok()) return dumped;
    }
    content = reader.Take();
    return absl::OkStatus();
  });
  if (!status.ok()) return Annotate(status, "read table " + tables_[Index(family)].name);
  return content;
}

absl::StatusOr<TableContent> NetlinkKernel::ReferenceContent(const TableSpec& spec) {
  const Family family = spec.family;
  TableSpecs reference = tables_;
  reference[Index(family)] = spec;
  reference[Index(family)].name += kReferenceSuffix;
  reference[Index(family)].dormant = true;
  tables_.swap(reference);

  Transaction make, drop;
  make.DropTable(family);
  make.CreateTable({family, std::make_shared<TableSpec>(tables_[Index(family)])});
  drop.DropTable(family);
  const ApplyResult made = NetlinkKernel::Apply(make);
  absl::StatusOr<std::optional<TableContent>> content =
      made.error.ok() ? ReadTable(family) : made.error;
  const ApplyResult dropped = NetlinkKernel::Apply(drop);
  tables_.swap(reference);

  if (!content.ok()) return Annotate(content.status(), "create the reference table");
  if (!dropped.error.ok()) return Annotate(dropped.error, "delete the reference table");
  if (!*content) return absl::UnavailableError("another process deleted the reference table");
  (*content)->flags = 0;  // Removes the dormant flag of the reference table.
  return **std::move(content);
}

}  // namespace svcmap::nft
