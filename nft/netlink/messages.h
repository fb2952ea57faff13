// Reads and writes the headers of netlink messages.
#pragma once

#include <libmnl/libmnl.h>
#include <netinet/in.h>  // Before linux/in.h, which linux/netfilter.h includes.

#include <linux/netfilter.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "nft/types/family.h"

namespace svcmap::nft {

constexpr uint8_t NfFamily(Family family) {
  return family == Family::kIpv4 ? NFPROTO_IPV4 : NFPROTO_IPV6;
}

// Starts a request with an empty header of the type Extra after the netlink header.
template <typename Extra>
nlmsghdr* PutRequest(uint8_t* buffer, int type, int flags) {
  nlmsghdr* request = mnl_nlmsg_put_header(buffer);
  request->nlmsg_type = static_cast<uint16_t>(type);
  request->nlmsg_flags = static_cast<uint16_t>(NLM_F_REQUEST | flags);
  mnl_nlmsg_put_extra_header(request, sizeof(Extra));
  return request;
}

// Iterates over the messages of one datagram with a range-based for loop. Stops at the first
// message that exceeds the remaining bytes. The iteration does not use libmnl 1.0.4, because libmnl
// accepts lengths of 2 GiB or more and reads past the buffer (found by tests/fuzz).
class Messages {
 public:
  class Iterator {
   public:
    explicit Iterator(std::span<const uint8_t> left) : left_(left) {}
    const nlmsghdr* operator*() const { return reinterpret_cast<const nlmsghdr*>(left_.data()); }
    Iterator& operator++() {
      const size_t size = MNL_ALIGN(size_t{(**this)->nlmsg_len});
      left_ = left_.subspan(size < left_.size() ? size : left_.size());
      return *this;
    }
    bool operator!=(std::nullptr_t) const {
      if (left_.size() < sizeof(nlmsghdr)) return false;
      const size_t size = (**this)->nlmsg_len;
      return size >= sizeof(nlmsghdr) && size <= left_.size();
    }

   private:
    std::span<const uint8_t> left_;
  };

  explicit Messages(std::span<const uint8_t> datagram) : datagram_(datagram) {}

  Iterator begin() const { return Iterator(datagram_); }
  static std::nullptr_t end() { return nullptr; }

 private:
  std::span<const uint8_t> datagram_;
};

}  // namespace svcmap::nft
