#include "api/check/place.h"

#include <fcntl.h>
#include <linux/nsfs.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include <cerrno>
#include <thread>

#include "absl/strings/str_cat.h"
#include "api/convert/quote.h"
#include "nft/base/status.h"

namespace svcmap::api {
namespace {

constexpr char kOwnPath[] = "/proc/self/ns/net";

}  // namespace

absl::StatusOr<Place> Place::Own() { return Open(kOwnPath); }

absl::StatusOr<Place> Place::Named(const std::string& name) {
  absl::StatusOr<Place> place =
      Open(name.find('/') == std::string::npos ? "/run/netns/" + name : name);
  if (!place.ok()) return Annotate(place.status(), "--netns: Invalid value: " + Quote(name));
  return place;
}

absl::StatusOr<Place> Place::OfProcess(pid_t pid) {
  absl::StatusOr<Place> place = Open(absl::StrCat("/proc/", pid, "/ns/net"));
  if (!place.ok()) return Annotate(place.status(), absl::StrCat("--pid: Invalid value: ", pid));
  return place;
}

absl::StatusOr<Place> Place::Open(const std::string& path) {
  const std::string what = absl::StrCat("open network namespace ", path);
  Place place;
  place.fd_ = UniqueFd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!place.fd_.ok()) return ErrnoStatus(errno, what);
  struct stat opened = {}, own = {};
  if (fstat(place.fd_.get(), &opened) != 0) return ErrnoStatus(errno, what);
  if (ioctl(place.fd_.get(), NS_GET_NSTYPE) != CLONE_NEWNET) {
    return absl::InvalidArgumentError(absl::StrCat(path, " must be a network namespace"));
  }
  if (stat(kOwnPath, &own) != 0) return ErrnoStatus(errno, absl::StrCat("stat ", kOwnPath));
  place.is_own_ = opened.st_dev == own.st_dev && opened.st_ino == own.st_ino;
  return place;
}

absl::Status Place::Run(const std::function<void()>& work) const {
  absl::Status status;
  std::thread([&] {
    // setns affects only this thread, so gRPC's threads stay in the namespace of the process.
    if (!is_own_ && setns(fd_.get(), CLONE_NEWNET) != 0) {
      status = ErrnoStatus(errno, "enter the network namespace");
      return;
    }
    work();
  }).join();
  return status;
}

}  // namespace svcmap::api
