#include "nft/conntrack/flow_message.h"

#include <gtest/gtest.h>
#include <linux/netfilter/nf_conntrack_tcp.h>
#include <linux/netfilter/nfnetlink_conntrack.h>

#include <cstring>
#include <vector>

#include "nft/netlink/attributes.h"

namespace svcmap::nft {
namespace {

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
  // Replaces the protocol number in every tuple.
  void SetProtocol(uint8_t protocol) {
    for (const nlattr* tuple : Attributes(message_, 4)) {
      if (mnl_attr_get_type(tuple) > CTA_TUPLE_REPLY) continue;
      for (const nlattr* part : Attributes(tuple)) {
        if (mnl_attr_get_type(part) != CTA_TUPLE_PROTO) continue;
        for (const nlattr* attribute : Attributes(part)) {
          if (mnl_attr_get_type(attribute) == CTA_PROTO_NUM) {
            *static_cast<uint8_t*>(mnl_attr_get_payload(attribute)) = protocol;
          }
        }
      }
    }
  }

 private:
  alignas(nlmsghdr) uint8_t buffer_[2 * kMaxFlowMessage] = {};
  nlmsghdr* message_;
};

TEST(FlowMessageTest, WhatIsWrittenIsReadAgain) {
  EXPECT_EQ(ReadFlow(AnEntry(kFlow4).message()), kFlow4);
  EXPECT_EQ(ReadFlow(AnEntry(kFlow6).message()), kFlow6);
}

TEST(FlowMessageTest, OtherProtocolsAreNoFlows) {
  for (const uint8_t protocol : {132, 1, 0}) {
    AnEntry entry(kFlow4);
    entry.SetProtocol(protocol);
    EXPECT_EQ(ReadFlow(entry.message()), std::nullopt) << int{protocol};
  }
}

TEST(FlowMessageTest, S242TcpFlowsAreNoUdpFlows) {
  Flow tcp = kFlow4;
  tcp.protocol = TransportProtocol::kTcp;
  EXPECT_EQ(ReadFlow(AnEntry(tcp).message()), tcp);
  EXPECT_NE(tcp, kFlow4);
}

TEST(FlowMessageTest, ATcpConnectionThatHasEndedIsNoFlow) {
  Flow tcp = kFlow4;
  tcp.protocol = TransportProtocol::kTcp;
  for (uint8_t state = TCP_CONNTRACK_NONE; state <= TCP_CONNTRACK_CLOSE; ++state) {
    AnEntry entry(tcp);
    nlattr* info = mnl_attr_nest_start(entry.message(), CTA_PROTOINFO);
    nlattr* nest = mnl_attr_nest_start(entry.message(), CTA_PROTOINFO_TCP);
    mnl_attr_put_u8(entry.message(), CTA_PROTOINFO_TCP_STATE, state);
    mnl_attr_nest_end(entry.message(), nest);
    mnl_attr_nest_end(entry.message(), info);
    const bool open = state != TCP_CONNTRACK_TIME_WAIT && state != TCP_CONNTRACK_CLOSE;
    EXPECT_EQ(ReadFlow(entry.message()).has_value(), open) << int{state};
  }
}

TEST(FlowMessageTest, OtherMessagesAreNoFlows) {
  AnEntry entry(kFlow4);
  entry.message()->nlmsg_type = NFNL_SUBSYS_CTNETLINK << 8 | IPCTNL_MSG_CT_DELETE;
  EXPECT_EQ(ReadFlow(entry.message()), std::nullopt);
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

TEST(FlowMessageTest, NoMessageIsLongerThanItsRoom) {
  alignas(nlmsghdr) uint8_t buffer[kMaxFlowMessage];
  Flow flow = kFlow6;
  flow.reply.zone = 7;
  EXPECT_LE(WriteFlowDeletion(buffer, flow)->nlmsg_len, kMaxFlowMessage);
  EXPECT_LE(WriteFlowDump(buffer, {TransportProtocol::kUdp, Family::kIpv6})->nlmsg_len,
            kMaxFlowMessage);
}

}  // namespace
}  // namespace svcmap::nft
