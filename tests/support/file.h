// Reads files, and compares generated documents with the files of this repository.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

namespace svcmap::testing {

// Returns the content of a file, or "" if the file cannot be read.
inline std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Expects that a file of this repository contains `wanted`. If SVCMAP_UPDATE_DOCS is set, writes
// `wanted` to the file first.
inline void ExpectFile(const std::string& path, const std::string& wanted) {
  const std::string whole = SVCMAP_SOURCE_DIR "/" + path;
  if (std::getenv("SVCMAP_UPDATE_DOCS") != nullptr) std::ofstream(whole) << wanted;
  EXPECT_TRUE(ReadFile(whole) == wanted)
      << path << " is stale: run this test with SVCMAP_UPDATE_DOCS=1";
}

}  // namespace svcmap::testing
