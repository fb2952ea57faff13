#include "api/cli/fd_output.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>

namespace svcmap::api {

FdOutput::FdOutput(int fd) : fd_(fd), buffer_(64 * 1024) {
  setp(buffer_.data(), buffer_.data() + buffer_.size());
}

FdOutput::int_type FdOutput::overflow(int_type c) {
  if (sync() != 0) return traits_type::eof();
  if (!traits_type::eq_int_type(c, traits_type::eof())) sputc(traits_type::to_char_type(c));
  return traits_type::not_eof(c);
}

int FdOutput::sync() {
  const char* data = pbase();
  pollfd output = {.fd = fd_, .events = 0, .revents = 0};
  if (error_ == 0 && data == pptr() && poll(&output, 1, /*timeout=*/0) == 1 &&
      (output.revents & (POLLERR | POLLHUP)) != 0) {
    error_ = EPIPE;
  }
  while (error_ == 0 && data < pptr()) {
    const ssize_t written = write(fd_, data, static_cast<size_t>(pptr() - data));
    if (written >= 0) {
      data += written;
    } else if (errno != EINTR) {
      error_ = errno;
    }
  }
  setp(buffer_.data(), buffer_.data() + buffer_.size());
  return error_ == 0 ? 0 : -1;
}

}  // namespace svcmap::api
