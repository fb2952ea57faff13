#include "api/kube/wire/content_type.h"

#include <string>

#include "absl/strings/ascii.h"

namespace svcmap::kube {

std::optional<ContentType> ParseContentType(std::string_view header) {
  std::string type(header.substr(0, header.find(';')));
  absl::StripAsciiWhitespace(&type);
  absl::AsciiStrToLower(&type);
  if (type == "application/vnd.kubernetes.protobuf") return ContentType::kProtobuf;
  if (type == "application/json") return ContentType::kJson;
  return std::nullopt;
}

}  // namespace svcmap::kube
