// The part of NetlinkKernel that asks and changes nothing.
#include <libnftnl/common.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>

#include <algorithm>
#include <cerrno>
#include <thread>
#include <tuple>

#include "nft/base/status.h"
#include "nft/netlink/attributes.h"
#include "nft/netlink/element_reader.h"
#include "nft/netlink/messages.h"
#include "nft/netlink/netlink_kernel.h"
#include "nft/netlink/table_reader.h"

namespace svcmap::nft {
namespace {

using std::chrono::milliseconds;

constexpr int kMaxDumpAttempts = 100;
constexpr milliseconds kMaxDumpPause{20};
constexpr size_t kRequestSize = 512;  // More than any of ours.

// An answer takes about 1 KiB of the receive buffer, which holds some 200 of them by default.
constexpr size_t kMaxInFlight = 128;

// A hash table without a fixed size is rehashed in the background after it grew. A dump that meets
// this gives some elements twice and leaves as many out.
bool HasRepeatedKey(const std::vector<Element>& elements) {
  std::vector<const Element*> sorted;
  sorted.reserve(elements.size());
  for (const Element& element : elements) sorted.push_back(&element);
  const auto key = [](const Element* element) {
    return std::tie(element->key, element->interval_end);
  };
  std::sort(sorted.begin(), sorted.end(),
            [&](const Element* a, const Element* b) { return key(a) < key(b); });
  return std::adjacent_find(sorted.begin(), sorted.end(), [&](const Element* a, const Element* b) {
           return key(a) == key(b);
         }) != sorted.end();
}

void PutSet(nlmsghdr* request, const TableSpec& table, const SetSpec& set) {
  mnl_attr_put_strz(request, NFTA_SET_ELEM_LIST_TABLE, table.name.c_str());
  mnl_attr_put_strz(request, NFTA_SET_ELEM_LIST_SET, set.name.c_str());
}

void PutKey(nlmsghdr* request, std::span<const uint8_t> key) {
  nlattr* list = mnl_attr_nest_start(request, NFTA_SET_ELEM_LIST_ELEMENTS);
  nlattr* element = mnl_attr_nest_start(request, NFTA_LIST_ELEM);
  nlattr* value = mnl_attr_nest_start(request, NFTA_SET_ELEM_KEY);
  mnl_attr_put(request, NFTA_DATA_VALUE, key.size(), key.data());
  mnl_attr_nest_end(request, value);
  mnl_attr_nest_end(request, element);
  mnl_attr_nest_end(request, list);
}

}  // namespace

absl::StatusOr<bool> NetlinkKernel::HasTable(Family family) {
  TableReader reader(tables_[Index(family)].name);
  return AskForTable(family, reader);
}

absl::StatusOr<bool> NetlinkKernel::AskForTable(Family family, TableReader& reader) {
  alignas(nlmsghdr) uint8_t buffer[kRequestSize];
  nlmsghdr* request = PrepareRequest(buffer, NFT_MSG_GETTABLE, family, NLM_F_ACK);
  mnl_attr_put_strz(request, NFTA_TABLE_NAME, tables_[Index(family)].name.c_str());
  const absl::Status status =
      Request(request, [&](const nlmsghdr* message) { reader.AddTable(message); });
  if (absl::IsNotFound(status)) return false;
  if (!status.ok()) return status;
  return true;
}

// Dumps of elements never carry NLM_F_DUMP_INTR (Linux 6.18): only the generation id tells whether
// a commit came between two parts of one. It moves when a commit starts; each part skips as many
// elements as were sent, so those that another batch is still putting in or taking out would make
// it skip too few or too many: no batch may be under way at either end.
absl::Status NetlinkKernel::AsOfOneGeneration(const std::function<absl::Status()>& read) {
  absl::Status status;
  for (int attempt = 0; attempt < kMaxDumpAttempts; ++attempt) {
    const absl::StatusOr<uint32_t> before = SettledGeneration();
    if (!before.ok()) return before.status();
    status = read();
    if (status.ok()) {
      const absl::StatusOr<uint32_t> after = SettledGeneration();
      if (!after.ok()) return after.status();
      if (*after == *before) return absl::OkStatus();
      status = absl::UnavailableError("a commit disturbed the dump");
    }
    if (!absl::IsUnavailable(status)) break;
    std::this_thread::sleep_for(std::min(attempt * milliseconds(1), kMaxDumpPause));
  }
  return status;
}

absl::StatusOr<std::vector<Element>> NetlinkKernel::ReadSet(SetRef set) {
  const TableSpec& table = tables_[Index(set.family)];
  std::vector<Element> elements;
  const absl::Status status = AsOfOneGeneration([&]() -> absl::Status {
    alignas(nlmsghdr) uint8_t buffer[kRequestSize];
    nlmsghdr* request = PrepareRequest(buffer, NFT_MSG_GETSETELEM, set.family, NLM_F_DUMP);
    PutSet(request, table, table.sets[set.set]);
    elements.clear();
    absl::Status read =
        Request(request, [&](const nlmsghdr* message) { nft::ReadElements(message, elements); });
    if (!read.ok() || !HasRepeatedKey(elements)) return read;
    return absl::UnavailableError("a growing hash table disturbed the dump");
  });
  if (!status.ok()) return Annotate(status, "read set " + table.sets[set.set].name);
  return elements;
}

absl::StatusOr<std::vector<std::optional<Element>>> NetlinkKernel::ReadElements(
    SetRef set, std::span<const FieldBytes> keys) {
  std::vector<std::optional<Element>> elements(keys.size());
  for (size_t begin = 0; begin < keys.size(); begin += kMaxInFlight) {
    const size_t count = std::min(kMaxInFlight, keys.size() - begin);
    const absl::Status status =
        ReadSome(set, keys.subspan(begin, count), std::span(elements).subspan(begin, count));
    if (!status.ok()) {
      return Annotate(status, "read from " + tables_[Index(set.family)].sets[set.set].name);
    }
  }
  return elements;
}

// One request per key, all sent at once: the kernel stops at the first key of a request that it
// does not find. Without NLM_F_ACK each is answered exactly once, by the element or an error.
absl::Status NetlinkKernel::ReadSome(SetRef set, std::span<const FieldBytes> keys,
                                     std::span<std::optional<Element>> elements) {
  const TableSpec& table = tables_[Index(set.family)];
  std::vector<uint8_t> requests(keys.size() * kRequestSize);
  const uint32_t first_sequence = sequence_;
  size_t size = 0;
  for (const FieldBytes& key : keys) {
    nlmsghdr* request = PrepareRequest(requests.data() + size, NFT_MSG_GETSETELEM, set.family, 0);
    PutSet(request, table, table.sets[set.set]);
    PutKey(request, key.bytes());
    size += MNL_ALIGN(request->nlmsg_len);
  }
  const absl::Status sent = socket_.Send({requests.data(), size});
  if (!sent.ok()) return sent;

  std::vector<bool> answered(keys.size());
  absl::Status result;
  std::vector<Element> found;
  for (size_t left = keys.size(); left > 0;) {
    const absl::StatusOr<std::span<const uint8_t>> datagram = socket_.Receive(kAnswerTimeout);
    if (!datagram.ok()) return datagram.status();
    if (datagram->empty()) return ErrnoStatus(ETIMEDOUT, "wait for an answer of nf_tables");
    for (const nlmsghdr* message : Messages(*datagram)) {
      const size_t index = message->nlmsg_seq - first_sequence;
      if (index >= keys.size() || answered[index]) continue;
      answered[index] = true;
      --left;
      if (message->nlmsg_type == NLMSG_ERROR) {
        const absl::Status error = ErrorStatus(message, "ask nf_tables");
        if (!absl::IsNotFound(error)) result.Update(error);
        continue;
      }
      found.clear();
      nft::ReadElements(message, found);
      if (!found.empty()) elements[index] = std::move(found.front());
    }
  }
  return result;
}

absl::StatusOr<std::optional<TableContent>> NetlinkKernel::ReadTable(Family family) {
  std::optional<TableContent> content;
  const absl::Status status = AsOfOneGeneration([&]() -> absl::Status {
    TableReader reader(tables_[Index(family)].name);
    content.reset();
    const absl::StatusOr<bool> found = AskForTable(family, reader);
    if (!found.ok() || !*found) return found.status();
    struct Part {
      uint16_t type;
      uint16_t table_attribute;  // That the kernel filters by; it ignores it for chains.
      void (TableReader::*add)(const nlmsghdr*);
    };
    for (const Part& part :
         {Part{NFT_MSG_GETSET, NFTA_SET_TABLE, &TableReader::AddSet},
          Part{NFT_MSG_GETCHAIN, NFTA_CHAIN_TABLE, &TableReader::AddChain},
          Part{NFT_MSG_GETRULE, NFTA_RULE_TABLE, &TableReader::AddRule},
          Part{NFT_MSG_GETOBJ, NFTA_OBJ_TABLE, &TableReader::AddObject},
          Part{NFT_MSG_GETFLOWTABLE, NFTA_FLOWTABLE_TABLE, &TableReader::AddFlowtable}}) {
      alignas(nlmsghdr) uint8_t buffer[kRequestSize];
      nlmsghdr* request = PrepareRequest(buffer, part.type, family, NLM_F_DUMP);
      mnl_attr_put_strz(request, part.table_attribute, tables_[Index(family)].name.c_str());
      absl::Status dumped =
          Request(request, [&](const nlmsghdr* message) { (reader.*part.add)(message); });
      if (!dumped.ok()) return dumped;
    }
    content = reader.Take();
    return absl::OkStatus();
  });
  if (!status.ok()) return Annotate(status, "read table " + tables_[Index(family)].name);
  return content;
}

// An empty batch changes nothing, but waits for its turn: the kernel works it off before send
// returns.
absl::StatusOr<uint32_t> NetlinkKernel::SettledGeneration() {
  alignas(nlmsghdr) char buffer[128];
  const nlmsghdr* begin = nftnl_batch_begin(buffer, sequence_++);
  const nlmsghdr* end = nftnl_batch_end(buffer + begin->nlmsg_len, sequence_++);
  const absl::Status sent = socket_.Send(
      {reinterpret_cast<const uint8_t*>(buffer), size_t{begin->nlmsg_len} + end->nlmsg_len});
  if (!sent.ok()) return sent;
  return Generation();
}

absl::StatusOr<uint32_t> NetlinkKernel::Generation() {
  alignas(nlmsghdr) uint8_t buffer[128];
  const nlmsghdr* request = PrepareRequest(buffer, NFT_MSG_GETGEN, Family::kIpv4, NLM_F_ACK);
  std::optional<uint32_t> generation;
  const absl::Status status = Request(request, [&](const nlmsghdr* message) {
    for (const nlattr* attribute : Attributes(message, sizeof(nfgenmsg))) {
      if (mnl_attr_get_type(attribute) == NFTA_GEN_ID &&
          mnl_attr_get_payload_len(attribute) == sizeof(uint32_t)) {
        generation = be32toh(mnl_attr_get_u32(attribute));
      }
    }
  });
  if (!status.ok()) return Annotate(status, "read the generation id");
  if (!generation) return absl::InternalError("nf_tables told no generation id");
  return *generation;
}

}  // namespace svcmap::nft
