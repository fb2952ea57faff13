#include "nft/base/status.h"

#include <cerrno>
#include <cstring>

namespace svcmap {
namespace {

absl::StatusCode CodeFor(int error) {
  switch (error) {
    case ENOENT:
      return absl::StatusCode::kNotFound;
    case EEXIST:
      return absl::StatusCode::kAlreadyExists;
    case EPERM:
    case EACCES:
      return absl::StatusCode::kPermissionDenied;
    case EINVAL:
    case ERANGE:
      return absl::StatusCode::kInvalidArgument;
    case EAGAIN:
    case EINTR:
    case EBUSY:
    case ERESTART:
      return absl::StatusCode::kUnavailable;
    case ETIMEDOUT:
      return absl::StatusCode::kDeadlineExceeded;
    case ENFILE:  // The kernel returns ENFILE if a set is full.
      return absl::StatusCode::kOutOfRange;
    case EMFILE:
    case ENOMEM:
    case ENOBUFS:
    case ENOSPC:
    case EMSGSIZE:
      return absl::StatusCode::kResourceExhausted;
    case EOPNOTSUPP:
    case EPROTONOSUPPORT:
    case EAFNOSUPPORT:
      return absl::StatusCode::kUnimplemented;
    default:
      return absl::StatusCode::kInternal;
  }
}

}  // namespace

absl::Status ErrnoStatus(int error, std::string_view what) {
  const char* name = strerrorname_np(error);
  std::string text(what);
  text += ": ";
  text += strerrordesc_np(error) != nullptr ? strerrordesc_np(error) : "unknown error";
  text += " (" + (name != nullptr ? std::string(name) : std::to_string(error)) + ")";
  return absl::Status(CodeFor(error), text);
}

absl::Status Annotate(const absl::Status& status, std::string_view what) {
  if (status.ok()) return status;
  return absl::Status(status.code(), std::string(what) + ": " + std::string(status.message()));
}

}  // namespace svcmap
