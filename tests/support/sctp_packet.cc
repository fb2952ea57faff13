#include "tests/support/sctp_packet.h"

#include <array>

namespace svcmap::testing {
namespace {

// Source port, destination port, verification tag and checksum.
constexpr size_t kCommonHeader = 12;
constexpr size_t kChecksumOffset = 8;
constexpr size_t kChunkHeader = 4;
// Initiate tag, a_rwnd, number of outbound and inbound streams, initial TSN.
constexpr size_t kInitFixed = 16;
constexpr uint16_t kStateCookie = 7;

constexpr std::array<uint32_t, 256> MakeTable() {
  std::array<uint32_t, 256> table = {};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) != 0 ? 0x82F63B78u : 0u);
    table[i] = value;
  }
  return table;
}
constexpr std::array<uint32_t, 256> kTable = MakeTable();

void Put16(std::string& out, uint16_t value) {
  out.push_back(static_cast<char>(value >> 8));
  out.push_back(static_cast<char>(value & 0xff));
}
void Put32(std::string& out, uint32_t value) {
  Put16(out, static_cast<uint16_t>(value >> 16));
  Put16(out, static_cast<uint16_t>(value & 0xffff));
}

uint8_t Get8(const std::string& in, size_t at) { return static_cast<uint8_t>(in[at]); }
uint16_t Get16(const std::string& in, size_t at) {
  return static_cast<uint16_t>(Get8(in, at) << 8 | Get8(in, at + 1));
}
uint32_t Get32(const std::string& in, size_t at) {
  return static_cast<uint32_t>(Get16(in, at)) << 16 | Get16(in, at + 2);
}

// Stores the CRC32c, which SCTP transmits in little-endian order, unlike all other fields.
void StoreChecksum(std::string& packet, uint32_t value) {
  for (size_t i = 0; i < 4; ++i) packet[kChecksumOffset + i] = static_cast<char>(value >> (8 * i));
}

uint32_t ChecksumOf(std::string packet) {
  StoreChecksum(packet, 0);
  return Crc32c(packet.data(), packet.size());
}

}  // namespace

uint32_t Crc32c(const void* data, size_t size) {
  uint32_t crc = ~0u;
  const auto* bytes = static_cast<const uint8_t*>(data);
  for (size_t i = 0; i < size; ++i) crc = (crc >> 8) ^ kTable[(crc ^ bytes[i]) & 0xff];
  return ~crc;
}

std::string BuildSctpPacket(const SctpPacket& packet) {
  std::string parameter;
  if (!packet.cookie.empty()) {
    Put16(parameter, kStateCookie);
    Put16(parameter, static_cast<uint16_t>(4 + packet.cookie.size()));
    parameter += packet.cookie;
  }
  std::string out;
  Put16(out, packet.source_port);
  Put16(out, packet.destination_port);
  Put32(out, packet.verification_tag);
  Put32(out, 0);  // Placeholder for the checksum.
  out.push_back(static_cast<char>(packet.chunk_type));
  out.push_back(0);  // Chunk flags.
  Put16(out, static_cast<uint16_t>(kChunkHeader + kInitFixed + parameter.size()));
  Put32(out, packet.initiate_tag);
  Put32(out, 65535);                // Advertised receiver window (a_rwnd).
  Put16(out, 1);                    // Number of outbound streams.
  Put16(out, 1);                    // Number of inbound streams.
  Put32(out, packet.initiate_tag);  // Initial TSN. Any value is permitted.
  out += parameter;
  while (out.size() % 4 != 0) out.push_back(0);
  StoreChecksum(out, ChecksumOf(out));
  return out;
}

absl::StatusOr<SctpPacket> ParseSctpPacket(const std::string& bytes) {
  if (bytes.size() < kCommonHeader + kChunkHeader)
    return absl::InvalidArgumentError("short SCTP packet");
  std::string expected = bytes;
  StoreChecksum(expected, ChecksumOf(bytes));
  if (expected != bytes) return absl::DataLossError("wrong SCTP checksum");

  SctpPacket packet;
  packet.source_port = Get16(bytes, 0);
  packet.destination_port = Get16(bytes, 2);
  packet.verification_tag = Get32(bytes, 4);
  packet.chunk_type = Get8(bytes, kCommonHeader);
  if (packet.chunk_type != kSctpInit && packet.chunk_type != kSctpInitAck) return packet;

  const size_t end = kCommonHeader + Get16(bytes, kCommonHeader + 2);
  size_t at = kCommonHeader + kChunkHeader + kInitFixed;
  if (end < at || end > bytes.size()) return absl::InvalidArgumentError("bad SCTP chunk length");
  packet.initiate_tag = Get32(bytes, kCommonHeader + kChunkHeader);
  while (at + 4 <= end) {
    const size_t length = Get16(bytes, at + 2);
    if (length < 4 || at + length > end)
      return absl::InvalidArgumentError("bad SCTP parameter length");
    if (Get16(bytes, at) == kStateCookie) packet.cookie = bytes.substr(at + 4, length - 4);
    at += (length + 3) / 4 * 4;
  }
  return packet;
}

}  // namespace svcmap::testing
