#include "nft/expr/jenkins_hash.h"

#include <array>
#include <bit>
#include <cstring>

namespace svcmap::nft {
namespace {

constexpr uint32_t kInitialValue = 0xdeadbeef;
constexpr size_t kBlock = 12;  // Bytes per round.

struct State {
  uint32_t a, b, c;

  void Add(std::span<const uint8_t> block) {
    std::array<uint32_t, 3> words = {};
    std::memcpy(words.data(), block.data(), block.size());
    a += words[0];
    b += words[1];
    c += words[2];
  }

  void Mix() {
    const auto step = [](uint32_t& x, uint32_t& y, uint32_t z, int bits) {
      x -= y;
      x ^= std::rotl(y, bits);
      y += z;
    };
    step(a, c, b, 4);
    step(b, a, c, 6);
    step(c, b, a, 8);
    step(a, c, b, 16);
    step(b, a, c, 19);
    step(c, b, a, 4);
  }

  void Finish() {
    const auto step = [](uint32_t& x, uint32_t y, int bits) {
      x ^= y;
      x -= std::rotl(y, bits);
    };
    step(c, b, 14);
    step(a, c, 11);
    step(b, a, 25);
    step(c, b, 16);
    step(a, c, 4);
    step(b, a, 14);
    step(c, b, 24);
  }
};

}  // namespace

uint32_t JenkinsHash(std::span<const uint8_t> bytes, uint32_t seed) {
  const uint32_t start = kInitialValue + static_cast<uint32_t>(bytes.size()) + seed;
  State state = {start, start, start};
  while (bytes.size() > kBlock) {
    state.Add(bytes.first(kBlock));
    state.Mix();
    bytes = bytes.subspan(kBlock);
  }
  if (bytes.empty()) return state.c;
  state.Add(bytes);
  state.Finish();
  return state.c;
}

uint32_t HashedNumberOf(std::span<const uint8_t> bytes, uint32_t modulus, uint32_t seed) {
  return static_cast<uint32_t>(uint64_t{JenkinsHash(bytes, seed)} * modulus >> 32);
}

}  // namespace svcmap::nft
