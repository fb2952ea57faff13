// Iterates over the netlink messages of one datagram with a range-based for loop. Stops at the
// first message that exceeds the remaining bytes. The iteration does not use libmnl 1.0.4, because
// libmnl accepts lengths of 2 GiB or more and reads past the buffer (found by tests/fuzz).
#pragma once

#include <libmnl/libmnl.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace svcmap::nft {

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
