#include "proxy/ruleset/typeof.h"

#include <cstring>

namespace svcmap::proxy {
namespace {

using Bytes = std::vector<uint8_t>;

// Record types of a set (NFTNL_UDATA_SET_*).
constexpr uint8_t kKeyByteOrder = 0, kDataByteOrder = 1, kKeyTypeof = 3, kDataTypeof = 4,
                  kDataInterval = 6;
constexpr uint32_t kNoByteOrder = 0, kNetworkOrder = 2;

// Record types of an expression: expression number and its data.
constexpr uint8_t kExpression = 0, kExpressionData = 1;
constexpr uint32_t kPayload = 7, kMeta = 9, kConcatenation = 13, kNumgen = 23;

constexpr uint32_t kUnknownHeader = 0, kRandomNumbers = 1;

void Append(Bytes& bytes, uint8_t type, const Bytes& value) {
  bytes.push_back(type);
  bytes.push_back(static_cast<uint8_t>(value.size()));
  bytes.insert(bytes.end(), value.begin(), value.end());
}

void Append(Bytes& bytes, uint8_t type, uint32_t value) {
  Bytes host_order(sizeof(value));
  std::memcpy(host_order.data(), &value, sizeof(value));
  Append(bytes, type, host_order);
}

Bytes Records(std::initializer_list<uint32_t> values) {
  Bytes bytes;
  uint8_t type = 0;
  for (const uint32_t value : values) Append(bytes, type++, value);
  return bytes;
}

Bytes Expression(uint32_t number, const Bytes& data) {
  Bytes bytes;
  Append(bytes, kExpression, number);
  Append(bytes, kExpressionData, data);
  return bytes;
}

Bytes Expression(const TypeofPart& part) {
  switch (part.form) {
    case TypeofPart::Form::kField:
      return Expression(kPayload, Records({part.header, part.field}));
    case TypeofPart::Form::kMeta:
      return Expression(kMeta, Records({part.field}));
    case TypeofPart::Form::kRaw:
      return Expression(kPayload, Records({kUnknownHeader, 0, static_cast<uint32_t>(part.base),
                                           part.offset_bits, part.size_bits}));
    case TypeofPart::Form::kRandom:
      return Expression(kNumgen, Records({kRandomNumbers, part.modulus, 0}));
  }
  return {};
}

Bytes Expression(const std::vector<TypeofPart>& parts) {
  if (parts.size() == 1) return Expression(parts[0]);
  Bytes concatenation;
  for (size_t i = 0; i < parts.size(); ++i) {
    Append(concatenation, static_cast<uint8_t>(i), Expression(parts[i]));
  }
  return Expression(kConcatenation, concatenation);
}

uint32_t ByteOrder(const std::vector<TypeofPart>& parts) {
  return parts.size() == 1 ? kNetworkOrder : kNoByteOrder;
}

std::string Text(const std::vector<TypeofPart>& parts) {
  std::string text;
  for (const TypeofPart& part : parts) {
    if (!text.empty()) text += " . ";
    switch (part.form) {
      case TypeofPart::Form::kField:
      case TypeofPart::Form::kMeta:
        text += part.name;
        break;
      case TypeofPart::Form::kRaw:
        text += std::string(part.base == TypeofPart::Base::kNetwork ? "@nh," : "@th,") +
                std::to_string(part.offset_bits) + "," + std::to_string(part.size_bits);
        break;
      case TypeofPart::Form::kRandom:
        text += "numgen random mod " + std::to_string(part.modulus);
        break;
    }
  }
  return text;
}

}  // namespace

std::string TypeofText(const std::vector<TypeofPart>& key, const std::vector<TypeofPart>& data) {
  return "typeof " + Text(key) + (data.empty() ? "" : " : " + Text(data));
}

Bytes TypeofUserdata(const std::vector<TypeofPart>& key, const std::vector<TypeofPart>& data) {
  Bytes bytes;
  Append(bytes, kKeyByteOrder, ByteOrder(key));
  if (!data.empty()) Append(bytes, kDataByteOrder, ByteOrder(data));
  Append(bytes, kKeyTypeof, Expression(key));
  if (data.empty()) return bytes;
  Append(bytes, kDataTypeof, Expression(data));
  Append(bytes, kDataInterval, 0);
  return bytes;
}

}  // namespace svcmap::proxy
