#include "api/kube/batch_message.h"

#include <google/protobuf/io/coded_stream.h>

#include <cstring>

#include "svcmap/v1/control.pb.h"

namespace svcmap::kube {
namespace {

using google::protobuf::io::CodedOutputStream;

constexpr uint32_t LengthDelimited(uint32_t field) { return field << 3 | 2; }
constexpr uint32_t kBatch = LengthDelimited(v1::PushRequest::kBatchFieldNumber);
constexpr uint32_t kChange = LengthDelimited(v1::Batch::kChangesFieldNumber);

size_t FieldSize(uint32_t tag, size_t bytes) {
  return CodedOutputStream::VarintSize32(tag) +
         CodedOutputStream::VarintSize32(static_cast<uint32_t>(bytes)) + bytes;
}

uint8_t* PutHead(uint32_t tag, size_t bytes, uint8_t* at) {
  at = CodedOutputStream::WriteVarint32ToArray(tag, at);
  return CodedOutputStream::WriteVarint32ToArray(static_cast<uint32_t>(bytes), at);
}

uint8_t* PutBytes(const std::string& bytes, uint8_t* at) {
  std::memcpy(at, bytes.data(), bytes.size());
  return at + bytes.size();
}

}  // namespace

std::string BatchMessage(uint64_t number, const std::vector<std::string>& changes) {
  v1::Batch head;
  head.set_number(number);
  const std::string head_bytes = head.SerializeAsString();
  size_t batch = head_bytes.size();
  for (const std::string& change : changes) batch += FieldSize(kChange, change.size());

  std::string message(FieldSize(kBatch, batch), '\0');
  auto* at = reinterpret_cast<uint8_t*>(message.data());
  at = PutBytes(head_bytes, PutHead(kBatch, batch, at));
  for (const std::string& change : changes)
    at = PutBytes(change, PutHead(kChange, change.size(), at));
  return message;
}

}  // namespace svcmap::kube
