#include "nft/conntrack/flow_message.h"

#include <endian.h>
#include <gtest/gtest.h>
#include <linux/netfilter/nf_conntrack_common.h>
#include <linux/netfilter/nf_conntrack_sctp.h>
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

}  // namespace
}  // namespace svcmap::nft
