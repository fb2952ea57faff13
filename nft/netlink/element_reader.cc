#include "nft/netlink/element_reader.h"

#include <libnftnl/udata.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>

#include <cstring>
#include <optional>

#include "nft/netlink/attributes.h"

namespace svcmap::nft {
namespace {

// Returns an empty value for verdicts and other data types that svcmap's sets do not contain.
std::vector<uint8_t> ReadValue(const nlattr* nest) {
  for (const nlattr* attribute : Attributes(nest)) {
    if (mnl_attr_get_type(attribute) != NFTA_DATA_VALUE) continue;
    const std::span<const uint8_t> value = AttributeBytes(attribute);
    return {value.begin(), value.end()};
  }
  return {};
}

std::string ReadComment(std::span<const uint8_t> userdata) {
  while (userdata.size() >= 2 && userdata.size() >= size_t{2} + userdata[1]) {
    const auto* value = reinterpret_cast<const char*>(userdata.data() + 2);
    if (userdata[0] == NFTNL_UDATA_SET_ELEM_COMMENT) return {value, strnlen(value, userdata[1])};
    userdata = userdata.subspan(size_t{2} + userdata[1]);
  }
  return {};
}

Element ReadElement(const nlattr* nest) {
  Element element;
  for (const nlattr* attribute : Attributes(nest)) {
    switch (mnl_attr_get_type(attribute)) {
      case NFTA_SET_ELEM_KEY:
        element.key = ReadValue(attribute);
        break;
      case NFTA_SET_ELEM_KEY_END:
        element.key_end = ReadValue(attribute);
        break;
      case NFTA_SET_ELEM_DATA:
        element.data = ReadValue(attribute);
        break;
      case NFTA_SET_ELEM_FLAGS:
        if (mnl_attr_get_payload_len(attribute) == sizeof(uint32_t)) {
          element.interval_end =
              (be32toh(mnl_attr_get_u32(attribute)) & NFT_SET_ELEM_INTERVAL_END) != 0;
        }
        break;
      case NFTA_SET_ELEM_USERDATA:
        element.comment = ReadComment(AttributeBytes(attribute));
        break;
      default:
        break;
    }
  }
  return element;
}

// Parses NFTA_EXPR_DATA of a counter.
std::optional<uint64_t> ReadPackets(const nlattr* nest) {
  for (const nlattr* attribute : Attributes(nest)) {
    if (mnl_attr_get_type(attribute) != NFTA_COUNTER_PACKETS ||
        mnl_attr_get_payload_len(attribute) != sizeof(uint64_t)) {
      continue;
    }
    return be64toh(mnl_attr_get_u64(attribute));
  }
  return std::nullopt;
}

// Parses the single expression of an element.
std::optional<uint64_t> ReadCounter(const nlattr* nest) {
  bool counter = false;
  for (const nlattr* attribute : Attributes(nest)) {
    const uint16_t type = mnl_attr_get_type(attribute);
    if (type == NFTA_EXPR_NAME) counter = AttributeText(attribute) == "counter";
    if (type == NFTA_EXPR_DATA && counter) return ReadPackets(attribute);
  }
  return std::nullopt;
}

std::optional<ElementCount> ReadCount(const nlattr* nest) {
  ElementCount count;
  bool counted = false;
  for (const nlattr* attribute : Attributes(nest)) {
    const uint16_t type = mnl_attr_get_type(attribute);
    if (type == NFTA_SET_ELEM_KEY) count.key = ReadValue(attribute);
    if (type != NFTA_SET_ELEM_EXPR) continue;
    const std::optional<uint64_t> packets = ReadCounter(attribute);
    counted = packets.has_value();
    count.packets = packets.value_or(0);
  }
  return counted ? std::optional(std::move(count)) : std::nullopt;
}

// Calls `fn` for each element of a message.
template <typename Fn>
void ForEachElement(const nlmsghdr* message, Fn&& fn) {
  if (mnl_nlmsg_get_payload_len(message) < sizeof(nfgenmsg)) return;
  for (const nlattr* list : Attributes(message, sizeof(nfgenmsg))) {
    if (mnl_attr_get_type(list) != NFTA_SET_ELEM_LIST_ELEMENTS) continue;
    for (const nlattr* element : Attributes(list)) fn(element);
  }
}

}  // namespace

void ReadElements(const nlmsghdr* message, std::vector<Element>& elements) {
  ForEachElement(message, [&](const nlattr* element) { elements.push_back(ReadElement(element)); });
}

void ReadCounts(const nlmsghdr* message, std::vector<ElementCount>& counts) {
  ForEachElement(message, [&](const nlattr* element) {
    if (std::optional<ElementCount> count = ReadCount(element)) counts.push_back(*std::move(count));
  });
}

}  // namespace svcmap::nft
