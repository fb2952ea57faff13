// Iterates over the fields of a protobuf message without copying. Used for the messages that
// contain the objects, because these messages are as large as the response.
#pragma once

#include <cstdint>
#include <string_view>

namespace svcmap::kube {

// `bytes` must outlive the reader.
class FieldReader {
 public:
  explicit FieldReader(std::string_view bytes) : rest_(bytes) {}

  // Moves to the next field that contains a message, a string or bytes. Skips other fields. Returns
  // false at the end of the message, or if the bytes are not a protobuf message. good()
  // distinguishes both cases.
  bool Next();

  uint64_t number() const { return number_; }
  std::string_view value() const { return value_; }
  bool good() const { return good_; }

 private:
  bool Varint(uint64_t& value);
  bool Take(uint64_t size, std::string_view& piece);

  std::string_view rest_;
  uint64_t number_ = 0;
  std::string_view value_;
  bool good_ = true;
};

}  // namespace svcmap::kube
