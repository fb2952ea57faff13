#include "nft/netlink/element_reader.h"

#include <endian.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <libmnl/libmnl.h>
#include <linux/netfilter/nf_conntrack_common.h>
#include <linux/netfilter/nf_conntrack_sctp.h>
#include <linux/netfilter/nf_conntrack_tcp.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_conntrack.h>

#include <cerrno>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <vector>

#include "nft/conntrack/flow_message.h"
#include "nft/netlink/answer.h"
#include "nft/netlink/attributes.h"

namespace svcmap::nft {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Bytes = std::vector<uint8_t>;

// Builds a netlink element message attribute by attribute.
class Message {
 public:
  explicit Message(const std::function<void(nlmsghdr*)>& fill, bool with_header = true)
      : buffer_(8192) {
    nlmsghdr* header = mnl_nlmsg_put_header(buffer_.data());
    header->nlmsg_type = NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_NEWSETELEM;
    if (with_header) mnl_nlmsg_put_extra_header(header, sizeof(nfgenmsg));
    fill(header);
  }

  nlmsghdr* header() { return reinterpret_cast<nlmsghdr*>(buffer_.data()); }

  // Parses a copy of exact size, so that a sanitizer detects reads past the end of the message.
  std::vector<Element> Read() {
    const size_t size = header()->nlmsg_len;
    const auto copy =
        std::make_unique<nlmsghdr[]>((size + sizeof(nlmsghdr) - 1) / sizeof(nlmsghdr));
    std::memcpy(copy.get(), buffer_.data(), size);
    std::vector<Element> elements;
    ReadElements(copy.get(), elements);
    return elements;
  }

 private:
  std::vector<uint8_t> buffer_;
};

// Creates NFTA_SET_ELEM_LIST_ELEMENTS with the attributes added by `fill`.
Message List(const std::function<void(nlmsghdr*)>& fill) {
  return Message([&](nlmsghdr* header) {
    nlattr* list = mnl_attr_nest_start(header, NFTA_SET_ELEM_LIST_ELEMENTS);
    fill(header);
    mnl_attr_nest_end(header, list);
  });
}

// Creates a list with one element.
Message One(const std::function<void(nlmsghdr*)>& fill) {
  return List([&](nlmsghdr* header) {
    nlattr* element = mnl_attr_nest_start(header, NFTA_LIST_ELEM);
    fill(header);
    mnl_attr_nest_end(header, element);
  });
}

void PutValue(nlmsghdr* header, uint16_t type, const Bytes& value) {
  nlattr* nest = mnl_attr_nest_start(header, type);
  mnl_attr_put(header, NFTA_DATA_VALUE, value.size(), value.data());
  mnl_attr_nest_end(header, nest);
}

// Adds an element that has an expression with the given name and attributes.
void PutExpression(nlmsghdr* header, uint8_t key, const char* name,
                   const std::function<void(nlmsghdr*)>& data) {
  nlattr* element = mnl_attr_nest_start(header, NFTA_LIST_ELEM);
  PutValue(header, NFTA_SET_ELEM_KEY, {key});
  nlattr* expression = mnl_attr_nest_start(header, NFTA_SET_ELEM_EXPR);
  mnl_attr_put_strz(header, NFTA_EXPR_NAME, name);
  nlattr* nest = mnl_attr_nest_start(header, NFTA_EXPR_DATA);
  data(header);
  mnl_attr_nest_end(header, nest);
  mnl_attr_nest_end(header, expression);
  mnl_attr_nest_end(header, element);
}

TEST(ElementReaderTest, CountersAreReadWhereThereAreAny) {
  const auto packets = [](uint64_t count) {
    return [count](nlmsghdr* header) {
      mnl_attr_put_u64(header, NFTA_COUNTER_BYTES, htobe64(99));
      mnl_attr_put_u64(header, NFTA_COUNTER_PACKETS, htobe64(count));
    };
  };
  Message message = List([&](nlmsghdr* header) {
    PutExpression(header, 1, "counter", packets(uint64_t{1} << 40));
    PutExpression(header, 2, "quota", packets(5));
    PutExpression(header, 3, "counter", [](nlmsghdr*) {});
    PutExpression(header, 4, "counter",
                  [](nlmsghdr* h) { mnl_attr_put_u32(h, NFTA_COUNTER_PACKETS, 7); });
    PutExpression(header, 5, "counter", packets(0));
    nlattr* bare = mnl_attr_nest_start(header, NFTA_LIST_ELEM);
    PutValue(header, NFTA_SET_ELEM_KEY, {6});
    mnl_attr_nest_end(header, bare);
  });
  std::vector<ElementCount> counts;
  ReadCounts(message.header(), counts);
  EXPECT_THAT(counts, ElementsAre(ElementCount{{1}, uint64_t{1} << 40}, ElementCount{{5}, 0}));
  EXPECT_EQ(message.Read().size(), 6u);  // All six entries are valid elements.
}

TEST(ElementReaderTest, OtherFlagsAndFlagsOfAnotherSizeAreNoEnd) {
  Message other = One([](nlmsghdr* header) {
    mnl_attr_put_u32(header, NFTA_SET_ELEM_FLAGS, htobe32(NFT_SET_ELEM_CATCHALL));
  });
  Message shorter = One([](nlmsghdr* header) { mnl_attr_put_u8(header, NFTA_SET_ELEM_FLAGS, 1); });
  EXPECT_FALSE(other.Read()[0].interval_end);
  EXPECT_FALSE(shorter.Read()[0].interval_end);
}

TEST(ElementReaderTest, UnknownAttributesAreSkipped) {
  Message message = One([](nlmsghdr* header) {
    mnl_attr_put_u64(header, NFTA_SET_ELEM_TIMEOUT, 1);
    mnl_attr_put(header, 0x3fff, 3, "abc");
    PutValue(header, NFTA_SET_ELEM_KEY, {1});
    mnl_attr_put(header, 200, 0, nullptr);
  });
  EXPECT_THAT(message.Read(), ElementsAre(Element{{1}, {}, "", false}));
}

TEST(ElementReaderTest, AVerdictIsNoData) {
  Message message = One([](nlmsghdr* header) {
    PutValue(header, NFTA_SET_ELEM_KEY, {1});
    nlattr* data = mnl_attr_nest_start(header, NFTA_SET_ELEM_DATA);
    nlattr* verdict = mnl_attr_nest_start(header, NFTA_DATA_VERDICT);
    mnl_attr_put_u32(header, NFTA_VERDICT_CODE, htobe32(1));
    mnl_attr_nest_end(header, verdict);
    mnl_attr_nest_end(header, data);
  });
  EXPECT_THAT(message.Read(), ElementsAre(Element{{1}, {}, "", false}));
}

TEST(ElementReaderTest, AMessageWithoutElementsGivesNone) {
  EXPECT_THAT(Message([](nlmsghdr*) {}).Read(), IsEmpty());
  EXPECT_THAT(Message([](nlmsghdr* header) {
                mnl_attr_put_strz(header, NFTA_SET_ELEM_LIST_TABLE, "svcmap");
              }).Read(),
              IsEmpty());
  EXPECT_THAT(List([](nlmsghdr*) {}).Read(), IsEmpty());
  EXPECT_THAT(Message([](nlmsghdr*) {}, /*with_header=*/false).Read(), IsEmpty());
}

TEST(ElementReaderTest, ElementsWithoutAKeyAreKeptEmpty) {
  EXPECT_THAT(One([](nlmsghdr*) {}).Read(), ElementsAre(Element{}));
}

TEST(ElementReaderTest, AKeyWithoutAValueIsEmpty) {
  Message message = One([](nlmsghdr* header) {
    mnl_attr_put(header, NFTA_SET_ELEM_KEY | NLA_F_NESTED, 0, nullptr);
    mnl_attr_put(header, NFTA_SET_ELEM_DATA | NLA_F_NESTED, 3, "abc");
  });
  EXPECT_THAT(message.Read(), ElementsAre(Element{}));
}

FlowEnd End(const char* address, uint16_t port) { return {*IpAddress::Parse(address), port}; }

const Flow kFlow4 = {.original = {End("10.9.0.9", 40000), End("10.96.0.10", 53), 7},
                     .reply = {End("10.0.0.1", 5353), End("10.9.0.9", 40000), 7},
                     .id = 0x12345678};
const Flow kFlow6 = {.original = {End("fd09::9", 40000), End("fd96::10", 53)},
                     .reply = {End("fd00::1", 5353), End("fd09::9", 40000)},
                     .id = 1};

// A conntrack entry as the kernel would send it. The entry is derived from a deletion message,
// which already contains the reply tuple, the zone and the id.
class AnEntry {
 public:
  explicit AnEntry(const Flow& flow) : message_(WriteFlowDeletion(buffer_, flow)) {
    message_->nlmsg_type = NFNL_SUBSYS_CTNETLINK << 8 | IPCTNL_MSG_CT_NEW;
    Flow turned = flow;
    turned.reply = flow.original;
    alignas(nlmsghdr) uint8_t other[kMaxFlowMessage];
    const nlmsghdr* original = WriteFlowDeletion(other, turned);
    for (const nlattr* attribute : Attributes(original, 4)) {
      if (mnl_attr_get_type(attribute) != CTA_TUPLE_REPLY) continue;
      mnl_attr_put(message_, CTA_TUPLE_ORIG | NLA_F_NESTED, mnl_attr_get_payload_len(attribute),
                   mnl_attr_get_payload(attribute));
    }
  }
  nlmsghdr* message() { return message_; }
  // `info` is CTA_PROTOINFO_TCP or CTA_PROTOINFO_SCTP.
  void SetState(uint16_t info, uint16_t attribute, uint8_t state) {
    nlattr* nest = mnl_attr_nest_start(message_, CTA_PROTOINFO);
    nlattr* inner = mnl_attr_nest_start(message_, info);
    mnl_attr_put_u8(message_, attribute, state);
    mnl_attr_nest_end(message_, inner);
    mnl_attr_nest_end(message_, nest);
  }
  void SetStatus(uint32_t status) { mnl_attr_put_u32(message_, CTA_STATUS, htobe32(status)); }

 private:
  alignas(nlmsghdr) uint8_t buffer_[2 * kMaxFlowMessage] = {};
  nlmsghdr* message_;
};

TEST(FlowMessageTest, ATcpConnectionThatHasEndedIsNoFlow) {
  Flow tcp = kFlow4;
  tcp.protocol = TransportProtocol::kTcp;
  for (uint8_t state = TCP_CONNTRACK_NONE; state <= TCP_CONNTRACK_CLOSE; ++state) {
    AnEntry entry(tcp);
    entry.SetState(CTA_PROTOINFO_TCP, CTA_PROTOINFO_TCP_STATE, state);
    entry.SetStatus(IPS_CONFIRMED | IPS_SEEN_REPLY);
    const bool open = state != TCP_CONNTRACK_TIME_WAIT && state != TCP_CONNTRACK_CLOSE;
    EXPECT_EQ(ReadFlow(entry.message()).has_value(), open) << int{state};
  }
}

// A connection in state ESTABLISHED without a reply was picked up in the middle.
TEST(FlowMessageTest, S242_ATcpConnectionIsUnrepliedAfterTheSyn) {
  Flow tcp = kFlow4;
  tcp.protocol = TransportProtocol::kTcp;
  const struct {
    uint8_t state;
    uint32_t status;
    bool unreplied;
  } cases[] = {{TCP_CONNTRACK_SYN_SENT, IPS_CONFIRMED | IPS_DST_NAT, true},
               {TCP_CONNTRACK_SYN_SENT, IPS_CONFIRMED | IPS_SEEN_REPLY, false},
               {TCP_CONNTRACK_CLOSE, IPS_CONFIRMED, true},
               {TCP_CONNTRACK_SYN_RECV, IPS_CONFIRMED | IPS_SEEN_REPLY, false},
               {TCP_CONNTRACK_ESTABLISHED, IPS_CONFIRMED, false}};
  for (const auto& c : cases) {
    AnEntry entry(tcp);
    entry.SetState(CTA_PROTOINFO_TCP, CTA_PROTOINFO_TCP_STATE, c.state);
    entry.SetStatus(c.status);
    const std::optional<Flow> flow = ReadFlow(entry.message());
    ASSERT_TRUE(flow);
    EXPECT_EQ(flow->unreplied, c.unreplied) << int{c.state} << " " << c.status;
  }
  AnEntry udp(kFlow4);
  udp.SetStatus(IPS_CONFIRMED);
  EXPECT_EQ(ReadFlow(udp.message()), kFlow4);
}

TEST(FlowMessageTest, S242_OnlyUnrepliedSctpAssociationsAreFlows) {
  Flow sctp = kFlow4;
  sctp.protocol = TransportProtocol::kSctp;
  sctp.unreplied = true;
  for (const uint32_t status : {uint32_t{IPS_CONFIRMED}, uint32_t{IPS_SEEN_REPLY}}) {
    for (uint8_t state = SCTP_CONNTRACK_NONE; state <= SCTP_CONNTRACK_HEARTBEAT_SENT; ++state) {
      AnEntry entry(sctp);
      entry.SetState(CTA_PROTOINFO_SCTP, CTA_PROTOINFO_SCTP_STATE, state);
      entry.SetStatus(status);
      const std::optional<Flow> flow = ReadFlow(entry.message());
      const bool began = state == SCTP_CONNTRACK_COOKIE_WAIT || state == SCTP_CONNTRACK_CLOSED;
      const bool unreplied = began && status == IPS_CONFIRMED;
      EXPECT_EQ(flow, unreplied ? std::optional(sctp) : std::nullopt) << int{state};
    }
  }
}

TEST(FlowMessageTest, AMessageThatIsCutIsReadToItsEndAndNoFurther) {
  AnEntry entry(kFlow6);
  for (uint32_t length = sizeof(nlmsghdr); length < entry.message()->nlmsg_len; ++length) {
    // Allocate the copy on the heap with its exact size, so that the address sanitizer detects
    // reads past the end.
    std::vector<uint8_t> cut(length);
    std::memcpy(cut.data(), entry.message(), length);
    auto* message = reinterpret_cast<nlmsghdr*>(cut.data());
    message->nlmsg_len = length;
    EXPECT_EQ(ReadFlow(message), std::nullopt) << length;
  }
}

class AnErrorMessage {
 public:
  explicit AnErrorMessage(int error) {
    message_ = mnl_nlmsg_put_header(buffer_);
    message_->nlmsg_type = NLMSG_ERROR;
    nlmsgerr body{};
    body.error = error;
    std::memcpy(mnl_nlmsg_put_extra_header(message_, sizeof(body)), &body, sizeof(body));
  }
  const nlmsghdr* get() const { return message_; }

 private:
  alignas(nlmsghdr) char buffer_[128] = {};
  nlmsghdr* message_;
};

TEST(AnswerTest, ErrorsAreNegativeErrnos) {
  EXPECT_EQ(ReadAnswer(AnErrorMessage(0).get()).error, 0);
  EXPECT_EQ(ReadAnswer(AnErrorMessage(-ENOENT).get()).error, ENOENT);
  EXPECT_EQ(ErrorIn(AnErrorMessage(-ENOENT).get()), ENOENT);
}

TEST(AnswerTest, WhatIsNoErrnoIsABadMessage) {
  for (const int error : {1, -4096, std::numeric_limits<int>::min()}) {
    EXPECT_EQ(ReadAnswer(AnErrorMessage(error).get()).error, EBADMSG) << error;
    EXPECT_EQ(ErrorIn(AnErrorMessage(error).get()), EBADMSG) << error;
  }
}

}  // namespace
}  // namespace svcmap::nft
