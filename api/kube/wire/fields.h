// Walks over the fields of a protobuf message without copying: for the messages around the objects,
// which are as large as the whole answer.
#pragma once

#include <cstdint>
#include <string_view>

namespace svcmap::kube {

// `bytes` outlives the reader.
class FieldReader {
 public:
  explicit FieldReader(std::string_view bytes) : rest_(bytes) {}

  // The next field that holds a message, a string or bytes; other fields are skipped. False at the
  // end, and where the bytes are no protobuf message: `good` tells which.
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
