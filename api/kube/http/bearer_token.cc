#include "api/kube/http/bearer_token.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "api/manifests/manifests.h"
#include "nft/base/status.h"

namespace svcmap::kube {
namespace {

constexpr std::chrono::seconds kMaxAge{60};

}  // namespace

absl::Status CheckToken(const std::string& text) {
  if (text.empty()) return absl::InvalidArgumentError("Required value: the token is empty");
  for (const char c : text) {
    if (!absl::ascii_isgraph(static_cast<unsigned char>(c))) {
      return absl::InvalidArgumentError(
          "must contain only printable ASCII characters without whitespace");
    }
  }
  return absl::OkStatus();
}

absl::Status BearerToken::Refresh(Time now) {
  if (file_.empty() || (read_ != Time::min() && now - read_ < kMaxAge)) return absl::OkStatus();
  const absl::Status status = Read(now);
  return text_.empty() ? status : absl::OkStatus();
}

bool BearerToken::Renew(Time now) {
  const std::string before = text_;
  return !file_.empty() && Read(now).ok() && text_ != before;
}

absl::Status BearerToken::Read(Time now) {
  absl::StatusOr<std::string> text = api::ReadTextFile(file_);
  if (!text.ok()) return Annotate(text.status(), "token file");
  absl::StripAsciiWhitespace(&*text);
  if (const absl::Status status = CheckToken(*text); !status.ok()) {
    return Annotate(status, absl::StrCat("token file: ", file_));
  }
  text_ = *std::move(text);
  read_ = now;
  return absl::OkStatus();
}

}  // namespace svcmap::kube
