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
  const AttributeTable attributes(nest);
  const uint32_t flags = AttributeNumber(attributes[NFTA_SET_ELEM_FLAGS]);
  return {.key = ReadValue(attributes[NFTA_SET_ELEM_KEY]),
          .data = ReadValue(attributes[NFTA_SET_ELEM_DATA]),
          .comment = ReadComment(AttributeBytes(attributes[NFTA_SET_ELEM_USERDATA])),
          .interval_end = (flags & NFT_SET_ELEM_INTERVAL_END) != 0,
          .key_end = ReadValue(attributes[NFTA_SET_ELEM_KEY_END])};
}

// Parses an element with a counter as its single expression.
std::optional<ElementCount> ReadCount(const nlattr* nest) {
  const AttributeTable attributes(nest);
  const AttributeTable expression(attributes[NFTA_SET_ELEM_EXPR]);
  if (AttributeText(expression[NFTA_EXPR_NAME]) != "counter") return std::nullopt;
  const auto packets =
      ReadNumber<uint64_t>(AttributeTable(expression[NFTA_EXPR_DATA])[NFTA_COUNTER_PACKETS]);
  if (!packets) return std::nullopt;
  return ElementCount{.key = ReadValue(attributes[NFTA_SET_ELEM_KEY]), .packets = *packets};
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
