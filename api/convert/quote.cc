#include "api/convert/quote.h"

#include "absl/strings/str_cat.h"
#include "api/log/printable.h"
#include "google/protobuf/stubs/common.h"

namespace svcmap::api {
namespace {

// Appends at most kMaxQuotedBytes bytes to `out`. Returns whether all of `text` fits.
bool AppendEscaped(std::string_view text, std::string& out) {
  size_t written = 0;
  while (!text.empty()) {
    const size_t length = Utf8Length(text);
    const std::string printable = Printable(text, length);
    if (written + printable.size() > kMaxQuotedBytes) return false;
    out += printable;
    written += printable.size();
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return true;
}

}  // namespace

std::string Escape(std::string_view text) {
  std::string out;
  if (!AppendEscaped(text, out)) out += "...";
  return out;
}

std::string Quote(std::string_view text) {
  std::string out = "\"";
  const bool complete = AppendEscaped(text, out);
  absl::StrAppend(&out, "\"", complete ? "" : "...");
  return out;
}

bool IsUtf8(std::string_view text) {
  return google::protobuf::internal::IsStructurallyValidUTF8(text.data(),
                                                             static_cast<int>(text.size()));
}

}  // namespace svcmap::api
