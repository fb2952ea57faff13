// Iterates over netlink attributes with a range-based for loop, because libmnl's macros work only
// in C. Stops at the first attribute that exceeds the remaining bytes.
#pragma once

#include <endian.h>
#include <libmnl/libmnl.h>

#include <cstring>
#include <span>
#include <string>

namespace svcmap::nft {

class Attributes {
 public:
  class Iterator {
   public:
    Iterator(const nlattr* attribute, const char* end) : attribute_(attribute), end_(end) {
      StopAtEnd();
    }
    const nlattr* operator*() const { return attribute_; }
    Iterator& operator++() {
      attribute_ = mnl_attr_next(attribute_);
      StopAtEnd();
      return *this;
    }
    bool operator!=(std::nullptr_t) const { return attribute_ != nullptr; }

   private:
    void StopAtEnd() {
      const auto* position = reinterpret_cast<const char*>(attribute_);
      if (position >= end_ || !mnl_attr_ok(attribute_, static_cast<int>(end_ - position))) {
        attribute_ = nullptr;
      }
    }
    const nlattr* attribute_;
    const char* end_;
  };

  // The attributes of a message, starting `offset` bytes into its payload.
  Attributes(const nlmsghdr* message, size_t offset)
      : begin_(static_cast<const char*>(mnl_nlmsg_get_payload_offset(message, offset))),
        end_(reinterpret_cast<const char*>(message) + message->nlmsg_len) {}

  // The attributes nested in another attribute.
  explicit Attributes(const nlattr* nest)
      : begin_(static_cast<const char*>(mnl_attr_get_payload(nest))),
        end_(begin_ + mnl_attr_get_payload_len(nest)) {}

  Iterator begin() const { return {reinterpret_cast<const nlattr*>(begin_), end_}; }
  static std::nullptr_t end() { return nullptr; }

 private:
  const char* begin_;
  const char* end_;
};

inline std::span<const uint8_t> AttributeBytes(const nlattr* attribute) {
  return {static_cast<const uint8_t*>(mnl_attr_get_payload(attribute)),
          mnl_attr_get_payload_len(attribute)};
}

// Returns 0 if the attribute does not have 32 bits.
inline uint32_t AttributeNumber(const nlattr* attribute) {
  if (mnl_attr_get_payload_len(attribute) != sizeof(uint32_t)) return 0;
  return be32toh(mnl_attr_get_u32(attribute));
}

// Returns the text up to the first NUL or the end of the attribute.
inline std::string AttributeText(const nlattr* attribute) {
  const auto* text = static_cast<const char*>(mnl_attr_get_payload(attribute));
  return {text, strnlen(text, mnl_attr_get_payload_len(attribute))};
}

}  // namespace svcmap::nft
