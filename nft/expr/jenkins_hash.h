// The hash function of the nft expression `jhash`: lookup3 by Bob Jenkins, as in the kernel
// (include/linux/jhash.h). Pure functions.
#pragma once

#include <cstdint>
#include <span>

namespace svcmap::nft {

// Returns the hash of `bytes`. Valid on little-endian machines, such as amd64 and arm64.
uint32_t JenkinsHash(std::span<const uint8_t> bytes, uint32_t seed);

// Returns the result of `jhash BYTES mod MODULUS seed SEED`. The kernel scales the hash to
// 0..modulus-1 by multiplication instead of a remainder (nft_hash, Linux 4.14).
uint32_t HashedNumberOf(std::span<const uint8_t> bytes, uint32_t modulus, uint32_t seed);

}  // namespace svcmap::nft
