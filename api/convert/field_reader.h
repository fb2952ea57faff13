// Reads protobuf messages field by field without copying. Used for untrusted input and for messages
// that contain large or many objects.
#pragma once

#include <string_view>

#include "google/protobuf/io/coded_stream.h"

namespace svcmap::api {

// Reads the length and the bytes of a field of type message, string or bytes. `in` must read from
// an array. Returns false if the field is truncated.
bool ReadBytes(google::protobuf::io::CodedInputStream& in, std::string_view& bytes);

// Iterates over the fields of type message, string or bytes. `bytes` must outlive the reader.
class FieldReader {
 public:
  explicit FieldReader(std::string_view bytes);

  // Moves to the next field, and skips fields of other types. Returns false at the end of the
  // message, or if the bytes are not a protobuf message. good() distinguishes both cases.
  bool Next();

  int number() const { return number_; }
  std::string_view value() const { return value_; }
  bool good() const { return good_; }

 private:
  bool good_;
  google::protobuf::io::CodedInputStream in_;
  int number_ = 0;
  std::string_view value_;
};

}  // namespace svcmap::api
