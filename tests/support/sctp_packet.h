// Builds and parses INIT and INIT-ACK packets (RFC 9260) with a correct CRC32c, for SCTP without
// kernel support (CONFIG_IP_SCTP is off). The packets have no IP header, as on raw sockets. Pure
// functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace svcmap::testing {

inline constexpr uint8_t kSctpInit = 1;
inline constexpr uint8_t kSctpInitAck = 2;
inline constexpr uint8_t kSctpAbort = 6;

struct SctpPacket {
  uint16_t source_port = 0;
  uint16_t destination_port = 0;
  // Verification tag: 0 in an INIT, the peer's initiate tag in all other packets.
  uint32_t verification_tag = 0;
  uint8_t chunk_type = 0;     // Type of the first chunk.
  uint32_t initiate_tag = 0;  // Initiate tag. Used only in INIT and INIT-ACK.
  std::string cookie = {};    // Contents of the State Cookie of an INIT-ACK.
};

uint32_t Crc32c(const void* data, size_t size);

// Returns the bytes of an INIT or INIT-ACK.
std::string BuildSctpPacket(const SctpPacket& packet);

// Returns DataLoss for a wrong CRC32c, and InvalidArgument for a packet that is too short or
// inconsistent.
absl::StatusOr<SctpPacket> ParseSctpPacket(const std::string& bytes);

}  // namespace svcmap::testing
