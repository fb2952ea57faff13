#include "nft/netlink/batch.h"

#include <libnftnl/udata.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>

#include <algorithm>
#include <cstring>

#include "nft/netlink/attributes.h"

namespace svcmap::nft {
namespace {

// Maximum size of all elements in one message. A nested attribute stores its length in 16 bits.
constexpr size_t kMaxElementBytes = 60000;

// Writes element attributes directly into the buffer, without objects or copies, because a batch
// may contain a million elements.
class ElementWriter {
 public:
  explicit ElementWriter(uint8_t* position) : position_(position) {}

  uint8_t* position() const { return position_; }

  uint8_t* OpenNest(uint16_t type) {
    uint8_t* nest = position_;
    Put(nest, static_cast<uint16_t>(type | NLA_F_NESTED), 0);
    position_ += sizeof(nlattr);
    return nest;
  }

  void CloseNest(uint8_t* nest) const {
    reinterpret_cast<nlattr*>(nest)->nla_len = static_cast<uint16_t>(position_ - nest);
  }

  void Bytes(uint16_t type, const void* data, size_t size) {
    Put(position_, type, size);
    uint8_t* end = position_ + sizeof(nlattr) + size;
    std::memcpy(position_ + sizeof(nlattr), data, size);
    position_ += MNL_ALIGN(sizeof(nlattr) + size);
    std::fill(end, position_, uint8_t{0});
  }

  void Value(uint16_t type, std::span<const uint8_t> value) {
    uint8_t* nest = OpenNest(type);
    Bytes(NFTA_DATA_VALUE, value.data(), value.size());
    CloseNest(nest);
  }

  void Comment(std::string_view comment) {
    uint8_t userdata[2 + Transaction::kMaxComment + 1];
    userdata[0] = NFTNL_UDATA_SET_ELEM_COMMENT;
    userdata[1] = static_cast<uint8_t>(comment.size() + 1);
    std::memcpy(userdata + 2, comment.data(), comment.size());
    userdata[2 + comment.size()] = 0;
    Bytes(NFTA_SET_ELEM_USERDATA, userdata, 2 + comment.size() + 1);
  }

 private:
  static void Put(uint8_t* position, uint16_t type, size_t size) {
    auto* attribute = reinterpret_cast<nlattr*>(position);
    attribute->nla_type = type;
    attribute->nla_len = static_cast<uint16_t>(sizeof(nlattr) + size);
  }

  uint8_t* position_;
};

void WriteElement(ElementWriter& writer, Verb verb, const ElementView& element) {
  uint8_t* nest = writer.OpenNest(NFTA_LIST_ELEM);
  const uint32_t flags = htobe32((element.interval_end ? NFT_SET_ELEM_INTERVAL_END : 0) |
                                 (element.key.empty() ? NFT_SET_ELEM_CATCHALL : 0));
  if (flags != 0) writer.Bytes(NFTA_SET_ELEM_FLAGS, &flags, sizeof(flags));
  if (!element.key.empty()) writer.Value(NFTA_SET_ELEM_KEY, element.key);
  if (!element.key_end.empty()) writer.Value(NFTA_SET_ELEM_KEY_END, element.key_end);
  if (verb == Verb::kAdd) {
    if (!element.data.empty()) writer.Value(NFTA_SET_ELEM_DATA, element.data);
    if (!element.comment.empty()) writer.Comment(element.comment);
  }
  writer.CloseNest(nest);
}

// Number of messages for a change to one Service.
constexpr size_t kTypicalMessages = 8;
// Initial capacity of the buffer. Most batches are smaller.
constexpr size_t kMinCapacity = 8192;
// Typical size of the attribute headers and padding of one element.
constexpr size_t kElementOverhead = 32;
// Maximum size of key, data, comment and all attribute headers.
constexpr size_t kMaxElementSize = 512;

}  // namespace

Batch::Batch(const TableSpecs& tables, uint32_t first_sequence)
    : tables_(tables), first_sequence_(first_sequence), sequence_(first_sequence) {
  sent_.reserve(kTypicalMessages);
  Envelope(NFNL_MSG_BATCH_BEGIN);
}

void Batch::Append(const Transaction& transaction) {
  for (const Family family : transaction.drops()) {
    AddTable(tables_[Index(family)], /*drop=*/true);
  }
  for (const Transaction::TableCreation& creation : transaction.creations()) {
    const TableSpec& table = creation.spec ? *creation.spec : tables_[Index(creation.family)];
    AddTable(table, /*drop=*/false);
    for (const SetSpec& set : table.sets) AddSet(table, set);
    for (const ChainSpec& chain : table.chains) AddChain(table, chain);
    for (const RuleSpec& rule : table.rules) AddRule(table, rule);
  }
  for (const ChainRepair& repair : transaction.repairs()) {
    RepairChains(repair.spec ? *repair.spec : tables_[Index(repair.family)], repair);
  }
  AddElements(transaction);
}

void Batch::Finish() {
  auto* last = reinterpret_cast<nlmsghdr*>(buffer_.get() + sent_.back().offset);
  last->nlmsg_flags |= NLM_F_ACK;
  last_sequence_ = last->nlmsg_seq;
  Envelope(NFNL_MSG_BATCH_END);
}

void Batch::Envelope(uint16_t type) {
  nlmsghdr* header = Begin(type, Family::kIpv4, 0, 0, "batch");
  auto* extra = static_cast<nfgenmsg*>(mnl_nlmsg_get_payload(header));
  extra->nfgen_family = AF_UNSPEC;
  extra->res_id = htobe16(NFNL_SUBSYS_NFTABLES);
  header->nlmsg_type = type;
  End(header);
}

nlmsghdr* Batch::Begin(uint16_t type, Family family, uint16_t flags, size_t headroom,
                       std::string what) {
  const size_t needed = size_ + MNL_NLMSG_HDRLEN + sizeof(nfgenmsg) + headroom;
  if (capacity_ < needed) Reserve(std::max({needed, capacity_ * 3 / 2, kMinCapacity}));
  sent_.push_back({size_, 0, 0, std::move(what)});
  nlmsghdr* header = mnl_nlmsg_put_header(buffer_.get() + size_);
  header->nlmsg_type = static_cast<uint16_t>(NFNL_SUBSYS_NFTABLES << 8 | type);
  header->nlmsg_flags = static_cast<uint16_t>(NLM_F_REQUEST | flags);
  header->nlmsg_seq = sequence_++;
  auto* extra = static_cast<nfgenmsg*>(mnl_nlmsg_put_extra_header(header, sizeof(nfgenmsg)));
  extra->nfgen_family = family == Family::kIpv4 ? NFPROTO_IPV4 : NFPROTO_IPV6;
  extra->version = NFNETLINK_V0;
  extra->res_id = 0;
  return header;
}

// A batch may have hundreds of megabytes, so the memory is not cleared. Messages and padding are
// written completely.
void Batch::Reserve(size_t size) {
  auto larger = std::make_unique_for_overwrite<uint8_t[]>(size);
  if (size_ > 0) std::memcpy(larger.get(), buffer_.get(), size_);
  buffer_ = std::move(larger);
  capacity_ = size;
}

void Batch::End(const nlmsghdr* header) { size_ += MNL_ALIGN(header->nlmsg_len); }

// Writes as many consecutive elements of the same set and verb as possible into one message.
void Batch::AddElements(const Transaction& transaction) {
  nlmsghdr* header = nullptr;
  uint8_t* nest = nullptr;
  ElementWriter writer(nullptr);
  SetRef current;
  Verb current_verb = Verb::kAdd;
  size_t index = 0;

  // Allocates the buffer of a large batch only once.
  const size_t expected = size_ + transaction.byte_count() +
                          transaction.element_count() * kElementOverhead + 2 * kMaxElementBytes;
  if (transaction.byte_count() > kMinCapacity && capacity_ < expected) Reserve(expected);

  const auto close = [&] {
    if (header == nullptr) return;
    writer.CloseNest(nest);
    header->nlmsg_len =
        static_cast<uint32_t>(writer.position() - reinterpret_cast<uint8_t*>(header));
    End(header);
    header = nullptr;
  };

  transaction.ForEachElement([&](Verb verb, const ElementView& element) {
    const bool fits = header != nullptr && verb == current_verb && element.set == current &&
                      writer.position() - nest < static_cast<ptrdiff_t>(kMaxElementBytes);
    if (!fits) {
      close();
      const TableSpec& table = tables_[Index(element.set.family)];
      const SetSpec& set = table.sets[element.set.set];
      const bool add = verb == Verb::kAdd;
      // Reserves only the space that the remaining elements need, because most messages contain
      // only a few elements.
      const size_t left = (transaction.element_count() - index) * kMaxElementSize;
      header =
          Begin(add ? NFT_MSG_NEWSETELEM : NFT_MSG_DELSETELEM, table.family, add ? NLM_F_CREATE : 0,
                std::min(left, kMaxElementBytes + kMaxElementSize) + kMaxElementSize, "");
      mnl_attr_put_strz(header, NFTA_SET_ELEM_LIST_TABLE, table.name.c_str());
      mnl_attr_put_strz(header, NFTA_SET_ELEM_LIST_SET, set.name.c_str());
      writer = ElementWriter(static_cast<uint8_t*>(mnl_nlmsg_get_payload_tail(header)));
      nest = writer.OpenNest(NFTA_SET_ELEM_LIST_ELEMENTS);
      current = element.set;
      current_verb = verb;
      sent_.back().first_element = index;
    }
    WriteElement(writer, verb, element);
    ++sent_.back().element_count;
    ++index;
  });
  close();
}

std::optional<size_t> Batch::ElementAt(uint32_t sequence, uint32_t offset) const {
  const size_t position = sequence - first_sequence_;
  if (position >= sent_.size() || sent_[position].element_count == 0) return std::nullopt;
  const Sent& sent = sent_[position];
  const auto* header = reinterpret_cast<const nlmsghdr*>(buffer_.get() + sent.offset);
  size_t index = sent.first_element;
  for (const nlattr* attribute : Attributes(header, sizeof(nfgenmsg))) {
    if (mnl_attr_get_type(attribute) != NFTA_SET_ELEM_LIST_ELEMENTS) continue;
    for (const nlattr* element : Attributes(attribute)) {
      const auto start = static_cast<size_t>(reinterpret_cast<const uint8_t*>(element) -
                                             reinterpret_cast<const uint8_t*>(header));
      if (offset < start) return std::nullopt;  // The offset refers to the table or the set.
      if (offset < start + mnl_attr_get_len(element)) return index;
      ++index;
    }
  }
  return std::nullopt;
}

std::string Batch::Describe(uint32_t sequence) const {
  const size_t position = sequence - first_sequence_;
  if (position >= sent_.size()) return "message " + std::to_string(sequence);
  const Sent& sent = sent_[position];
  if (!sent.what.empty()) return sent.what;
  const auto* header = reinterpret_cast<const nlmsghdr*>(buffer_.get() + sent.offset);
  const bool add = (header->nlmsg_type & 0xff) == NFT_MSG_NEWSETELEM;
  std::string what = add ? "add to " : "delete from ";
  for (const nlattr* attribute : Attributes(header, sizeof(nfgenmsg))) {
    if (mnl_attr_get_type(attribute) == NFTA_SET_ELEM_LIST_SET) what += mnl_attr_get_str(attribute);
  }
  return what;
}

}  // namespace svcmap::nft
