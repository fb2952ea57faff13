#include "proxy/state/objects.h"

#include "absl/strings/str_cat.h"

namespace svcmap::proxy {

std::string Finding::ToString() const {
  const bool refused = severity == Severity::kRefused;
  std::string text =
      absl::StrCat(std::string(KindName(kind)), " ", key, refused ? " refused: " : ": ");
  if (!field.empty()) absl::StrAppend(&text, field, " ");
  if (!value.empty()) absl::StrAppend(&text, value, " ");
  absl::StrAppend(&text, reason, refused ? "; its last good state stays" : "");
  return text;
}

}  // namespace svcmap::proxy
