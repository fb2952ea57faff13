// Classifies the source of a packet (pod, node or other) in the same way as the rules. Pure
// functions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "proxy/explain/explain.h"

namespace svcmap::proxy {

struct Source {
  SourceKind kind = SourceKind::kOther;
  std::optional<IpAddress> address;  // Absent if the source is any address of this kind.
  // True if a process on this node sends the packet. A packet from a process traverses hook output
  // instead of hook prerouting.
  bool from_process = false;
  std::string name;  // "10.244.1.5, a pod"
  Step step;         // Step that explains the kind of source.
};

// Returns whether the rules can detect pods of `family` (S-71).
bool RecognisesPods(const ExplainContext& context, Family family);

// Returns whether `address` belongs to this node according to the FIB (S-72).
bool IsLocal(const ExplainContext& context, const IpAddress& address);

// Returns all kinds of source that match `question`. The result is never empty.
std::vector<Source> SourcesOf(const ExplainContext& context, const Question& question);

}  // namespace svcmap::proxy
