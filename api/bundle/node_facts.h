// Collects facts about the node for a support bundle: kernel, sysctls, rules of other software,
// connection tracking, interfaces, routes and the log of svcmapd. Only reads. Works in the network
// namespace of the calling process.
#pragma once

#include <string>
#include <vector>

#include "api/bundle/contents.h"

namespace svcmap::api {

// Places of a file where names of Kubernetes objects can occur.
enum class NamesIn : uint8_t { kNone, kQuotes, kText, kJsonValues };

struct BundleFile {
  std::string name;
  std::string content;
  NamesIn names = NamesIn::kNone;
};

// `log_file` is the file with the log of svcmapd. If it is empty, the log is read from the systemd
// journal. Appends files that could not be created to `missing`.
std::vector<BundleFile> CollectNodeFacts(const std::string& log_file,
                                         std::vector<MissingPart>& missing);

}  // namespace svcmap::api
