// Reads protobuf messages field by field without copying. Used for untrusted input and for messages
// that contain large or many objects.
#pragma once

#include <cstdint>
#include <string_view>

namespace svcmap::api {

// Reads tags and values. The bytes must outlive the reader.
class WireReader {
 public:
  explicit WireReader(std::string_view bytes)
      : next_(bytes.data()), end_(bytes.data() + bytes.size()) {}

  // Returns the next tag: the number of the field times 8, plus the wire type. Returns 0 at the end
  // of the message, or if the bytes are not a protobuf message. ended() distinguishes both cases.
  uint32_t ReadTag() {
    ended_ = next_ == end_;
    uint64_t tag = 0;
    return !ended_ && ReadVarint(tag) ? Truncate(tag) : 0;
  }
  bool ended() const { return ended_; }
  // Returns true if no tag, length or number was longer than necessary.
  bool minimal() const { return minimal_; }

  // Read the value of a field. Return false if the value is truncated.
  bool ReadVarint(uint64_t& value) {
    if (next_ == end_ || static_cast<uint8_t>(*next_) >= 0x80) return ReadLongVarint(value);
    value = static_cast<uint8_t>(*next_++);
    return true;
  }
  bool ReadBytes(std::string_view& bytes) {  // Of type message, string or bytes.
    uint64_t length = 0;
    if (!ReadVarint(length)) return false;
    const uint32_t size = Truncate(length);
    if (size > static_cast<size_t>(end_ - next_)) return false;
    bytes = {next_, size};
    next_ += size;
    return true;
  }
  bool Skip(uint32_t tag);

  static uint32_t NumberOf(uint32_t tag) { return tag >> 3; }
  static bool IsVarint(uint32_t tag) { return (tag & 7) == 0; }
  static bool IsBytes(uint32_t tag) { return (tag & 7) == 2; }

 private:
  bool ReadLongVarint(uint64_t& value);
  // Ignores high bits, as the decoders of protobuf do.
  uint32_t Truncate(uint64_t value) {
    minimal_ &= value <= UINT32_MAX;
    return static_cast<uint32_t>(value);
  }

  const char* next_;
  const char* end_;
  bool ended_ = false;
  bool minimal_ = true;
};

// Iterates over the fields of a message. `bytes` must outlive the reader.
class FieldReader {
 public:
  explicit FieldReader(std::string_view bytes) : in_(bytes) {}

  // Moves to the next field with a varint, or of type message, string or bytes. Skips other fields.
  // Returns false at the end of the message, or if the bytes are not a protobuf message. good()
  // distinguishes both cases.
  bool Next() {
    while ((tag_ = in_.ReadTag()) != 0) {
      if (WireReader::IsBytes(tag_)) return good_ = in_.ReadBytes(bytes_);
      if (WireReader::IsVarint(tag_)) return good_ = in_.ReadVarint(value_);
      if (!(good_ = in_.Skip(tag_))) return false;
    }
    good_ = in_.ended();
    return false;
  }
  bool good() const { return good_; }

  uint32_t number() const { return WireReader::NumberOf(tag_); }
  uint64_t value() const { return value_; }          // Value of a field with a varint.
  std::string_view bytes() const { return bytes_; }  // Value of any other field.
  // Returns true if the field has this number and is of type message, string or bytes.
  bool IsBytes(uint32_t number) const { return tag_ == (number << 3 | 2); }

 private:
  WireReader in_;
  uint32_t tag_ = 0;
  bool good_ = true;
  uint64_t value_ = 0;
  std::string_view bytes_;
};

}  // namespace svcmap::api
