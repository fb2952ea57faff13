// Which sources a question is about, as the rules tell them apart (docs/specification.md, 3.1).
// Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "proxy/explain/explain.h"

namespace svcmap::proxy {

struct Source {
  SourceKind kind = SourceKind::kOther;
  std::optional<IpAddress> address;  // Absent: any of that kind.
  // The packet comes from a process of this node: it passes output, not prerouting.
  bool from_process = false;
  std::string name;  // "10.244.1.5, a pod"
  Step step;         // Why it is of that kind.
};

// Whether pods of `family` are told from others at all (S-71).
bool RecognisesPods(const ExplainContext& context, Family family);

// An address of this node, as the FIB sees it (S-72).
bool IsLocal(const ExplainContext& context, const IpAddress& address);

std::vector<Source> SourcesOf(const ExplainContext& context, const Question& question);

}  // namespace svcmap::proxy
