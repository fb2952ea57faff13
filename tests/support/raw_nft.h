// Low-level nf_tables access, for messages that svcmapd never writes or reads, such as user data of
// other processes.
#pragma once

#include <libmnl/libmnl.h>
#include <netinet/in.h>  // This header must come first, so that linux/in.h detects its definitions.
//
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "nft/base/status.h"
#include "nft/netlink/attributes.h"
#include "nft/types/family.h"

namespace svcmap::testing {

using Bytes = std::vector<uint8_t>;

inline uint8_t NfFamily(Family family) {
  return family == Family::kIpv4 ? NFPROTO_IPV4 : NFPROTO_IPV6;
}

using RawSocket = std::unique_ptr<mnl_socket, int (*)(mnl_socket*)>;

// Opens a netlink socket in the calling thread's namespace. Returns null and sets errno on failure.
inline RawSocket OpenRawSocket() {
  RawSocket socket(mnl_socket_open(NETLINK_NETFILTER), mnl_socket_close);
  if (socket && mnl_socket_bind(socket.get(), 0, MNL_SOCKET_AUTOPID) != 0) socket.reset();
  return socket;
}

// The messages of one nf_tables batch, built directly with libmnl.
class RawBatch {
 public:
  explicit RawBatch(Family family) : family_(family) { Envelope(NFNL_MSG_BATCH_BEGIN); }

  void AddTable(const std::string& table, const Bytes& userdata) {
    Message(NFT_MSG_NEWTABLE, [&](nlmsghdr* header) {
      mnl_attr_put_strz(header, NFTA_TABLE_NAME, table.c_str());
      if (!userdata.empty()) {
        mnl_attr_put(header, NFTA_TABLE_USERDATA, userdata.size(), userdata.data());
      }
    });
  }

  void AddSet(const std::string& table, const std::string& set, uint32_t key_size,
              const Bytes& userdata) {
    Message(NFT_MSG_NEWSET, [&](nlmsghdr* header) {
      mnl_attr_put_strz(header, NFTA_SET_TABLE, table.c_str());
      mnl_attr_put_strz(header, NFTA_SET_NAME, set.c_str());
      mnl_attr_put_u32(header, NFTA_SET_ID, htobe32(1));
      mnl_attr_put_u32(header, NFTA_SET_KEY_TYPE, htobe32(key_size == 4 ? 7 : 8));
      mnl_attr_put_u32(header, NFTA_SET_KEY_LEN, htobe32(key_size));
      if (!userdata.empty()) {
        mnl_attr_put(header, NFTA_SET_USERDATA, userdata.size(), userdata.data());
      }
    });
  }

  void AddElement(const std::string& table, const std::string& set, const Bytes& key,
                  const Bytes& userdata) {
    Message(NFT_MSG_NEWSETELEM, [&](nlmsghdr* header) {
      mnl_attr_put_strz(header, NFTA_SET_ELEM_LIST_TABLE, table.c_str());
      mnl_attr_put_strz(header, NFTA_SET_ELEM_LIST_SET, set.c_str());
      nlattr* list = mnl_attr_nest_start(header, NFTA_SET_ELEM_LIST_ELEMENTS);
      nlattr* element = mnl_attr_nest_start(header, NFTA_LIST_ELEM);
      nlattr* value = mnl_attr_nest_start(header, NFTA_SET_ELEM_KEY);
      mnl_attr_put(header, NFTA_DATA_VALUE, key.size(), key.data());
      mnl_attr_nest_end(header, value);
      if (!userdata.empty()) {
        mnl_attr_put(header, NFTA_SET_ELEM_USERDATA, userdata.size(), userdata.data());
      }
      mnl_attr_nest_end(header, element);
      mnl_attr_nest_end(header, list);
    });
  }

  // Appends a rule that has no effect to a chain.
  void AddRule(const std::string& table, const std::string& chain) {
    Message(NFT_MSG_NEWRULE, [&](nlmsghdr* header) {
      header->nlmsg_flags |= NLM_F_APPEND;
      mnl_attr_put_strz(header, NFTA_RULE_TABLE, table.c_str());
      mnl_attr_put_strz(header, NFTA_RULE_CHAIN, chain.c_str());
    });
  }

  // Sends the batch in the calling thread's namespace.
  absl::Status Send() {
    const RawSocket socket = OpenRawSocket();
    if (!socket) return ErrnoStatus(errno, "open socket for raw batch");
    return Send(socket);
  }
  absl::Status Send(const RawSocket& socket) {
    reinterpret_cast<nlmsghdr*>(bytes_.data() + last_)->nlmsg_flags |= NLM_F_ACK;
    Envelope(NFNL_MSG_BATCH_END);
    if (mnl_socket_sendto(socket.get(), bytes_.data(), bytes_.size()) < 0) {
      return ErrnoStatus(errno, "send raw batch");
    }
    std::vector<char> buffer(65536);
    const ssize_t size = mnl_socket_recvfrom(socket.get(), buffer.data(), buffer.size());
    if (mnl_cb_run(buffer.data(), static_cast<size_t>(size), 0, 0, nullptr, nullptr) < 0) {
      return ErrnoStatus(errno, "raw batch");
    }
    return absl::OkStatus();
  }

 private:
  void Envelope(uint16_t type) {
    Message(0, [&](nlmsghdr* header) {
      header->nlmsg_type = type;
      header->nlmsg_flags = NLM_F_REQUEST;
      auto* extra = static_cast<nfgenmsg*>(mnl_nlmsg_get_payload(header));
      extra->nfgen_family = AF_UNSPEC;
      extra->res_id = htobe16(NFNL_SUBSYS_NFTABLES);
    });
  }

  void Message(uint16_t type, const std::function<void(nlmsghdr*)>& fill) {
    alignas(nlmsghdr) uint8_t buffer[4096] = {};
    nlmsghdr* header = mnl_nlmsg_put_header(buffer);
    header->nlmsg_type = static_cast<uint16_t>(NFNL_SUBSYS_NFTABLES << 8 | type);
    header->nlmsg_flags = NLM_F_REQUEST | NLM_F_CREATE;
    header->nlmsg_seq = sequence_++;
    auto* extra = static_cast<nfgenmsg*>(mnl_nlmsg_put_extra_header(header, sizeof(nfgenmsg)));
    extra->nfgen_family = NfFamily(family_);
    fill(header);
    last_ = bytes_.size();
    bytes_.insert(bytes_.end(), buffer, buffer + MNL_ALIGN(header->nlmsg_len));
  }

  Family family_;
  Bytes bytes_;
  size_t last_ = 0;  // Offset of the last message in the buffer.
  uint32_t sequence_ = 1;
};

// Returns the user data of all named sets in the calling thread's namespace, by set name.
inline std::map<std::string, Bytes> ReadSetUserdata(Family family) {
  std::map<std::string, Bytes> result;
  const RawSocket socket = OpenRawSocket();
  if (!socket) return result;
  std::vector<char> buffer(65536);
  nlmsghdr* header = mnl_nlmsg_put_header(buffer.data());
  header->nlmsg_type = NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_GETSET;
  header->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  auto* extra = static_cast<nfgenmsg*>(mnl_nlmsg_put_extra_header(header, sizeof(nfgenmsg)));
  extra->nfgen_family = NfFamily(family);
  mnl_socket_sendto(socket.get(), header, header->nlmsg_len);

  const auto on_message = [](const nlmsghdr* message, void* result) {
    std::string name;
    Bytes userdata;
    for (const nlattr* attribute : nft::Attributes(message, sizeof(nfgenmsg))) {
      if (mnl_attr_get_type(attribute) == NFTA_SET_NAME) name = mnl_attr_get_str(attribute);
      if (mnl_attr_get_type(attribute) == NFTA_SET_USERDATA) {
        const auto* data = static_cast<const uint8_t*>(mnl_attr_get_payload(attribute));
        userdata.assign(data, data + mnl_attr_get_payload_len(attribute));
      }
    }
    if (name.rfind("__", 0) != 0) {
      (*static_cast<std::map<std::string, Bytes>*>(result))[name] = userdata;
    }
    return MNL_CB_OK;
  };
  for (;;) {
    const ssize_t size = mnl_socket_recvfrom(socket.get(), buffer.data(), buffer.size());
    if (size <= 0) break;
    if (mnl_cb_run(buffer.data(), static_cast<size_t>(size), 0, 0, on_message, &result) <= 0) break;
  }
  return result;
}

}  // namespace svcmap::testing
