// Reads netlink attributes. A null pointer stands for an attribute that is absent.
#pragma once

#include <libmnl/libmnl.h>

#include <array>
#include <cstring>
#include <optional>
#include <span>
#include <string>

namespace svcmap::nft {

inline std::span<const uint8_t> AttributeBytes(const nlattr* attribute) {
  if (attribute == nullptr) return {};
  return {static_cast<const uint8_t*>(mnl_attr_get_payload(attribute)),
          mnl_attr_get_payload_len(attribute)};
}

// Iterates over attributes with a range-based for loop, because libmnl's macros work only in C.
// Stops at the first attribute that exceeds the remaining bytes.
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

  explicit Attributes(std::span<const uint8_t> bytes)
      : begin_(reinterpret_cast<const char*>(bytes.data())), end_(begin_ + bytes.size()) {}

  // Iterates over the attributes in `nest`. There are none if `nest` is null.
  explicit Attributes(const nlattr* nest) : Attributes(AttributeBytes(nest)) {}

  Iterator begin() const { return {reinterpret_cast<const nlattr*>(begin_), end_}; }
  static std::nullptr_t end() { return nullptr; }

 private:
  const char* begin_;
  const char* end_;
};

// Finds attributes by type. If a type is repeated, its last attribute counts.
class AttributeTable {
 public:
  // Passes the arguments to a constructor of Attributes.
  template <typename... Args>
  explicit AttributeTable(Args... args) {
    for (const nlattr* attribute : Attributes(args...)) {
      const size_t type = mnl_attr_get_type(attribute);
      if (type < table_.size()) table_[type] = attribute;
    }
  }
  const nlattr* operator[](size_t type) const { return table_[type]; }

 private:
  std::array<const nlattr*, 48> table_ = {};  // The types of all attributes in use are smaller.
};

// Returns a number in network byte order, or nullopt if the attribute has another size than T.
template <typename T = uint32_t>
std::optional<T> ReadNumber(const nlattr* attribute) {
  const std::span<const uint8_t> bytes = AttributeBytes(attribute);
  if (bytes.size() != sizeof(T)) return std::nullopt;
  T value = 0;
  for (const uint8_t byte : bytes) value = static_cast<T>(uint64_t{value} << 8 | byte);
  return value;
}

inline uint32_t AttributeNumber(const nlattr* attribute) {
  return ReadNumber(attribute).value_or(0);
}

// Returns the text up to the first NUL or the end of the attribute.
inline std::string AttributeText(const nlattr* attribute) {
  const std::span<const uint8_t> bytes = AttributeBytes(attribute);
  const auto* text = reinterpret_cast<const char*>(bytes.data());
  return {text, text == nullptr ? 0 : strnlen(text, bytes.size())};
}

}  // namespace svcmap::nft
