#include "api/screen/screened_connection.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <cerrno>

namespace svcmap::api {

Io ScreenedConnection::Read(Side& side, std::span<char> into, size_t& count) {
  if (&side == &client && ssl) {
    ERR_clear_error();
    const int read = SSL_read(ssl.get(), into.data(), static_cast<int>(into.size()));
    if (read > 0) {
      count = static_cast<size_t>(read);
      return Io::kDone;
    }
    switch (SSL_get_error(ssl.get(), read)) {
      case SSL_ERROR_WANT_WRITE:
        wants_write = true;
        return Io::kBlocked;
      case SSL_ERROR_WANT_READ:
        return Io::kBlocked;
      case SSL_ERROR_ZERO_RETURN:
        return Io::kEof;
      default:
        ERR_clear_error();
        return Io::kFailed;
    }
  }
  if (peer.trusted) into = into.first(kGreetingBytes);
  const ssize_t read = recv(side.fd.get(), into.data(), into.size(), peer.trusted ? MSG_PEEK : 0);
  if (read > 0) {
    count = static_cast<size_t>(read);
    return Io::kDone;
  }
  if (read == 0) return Io::kEof;
  return errno == EAGAIN || errno == EINTR ? Io::kBlocked : Io::kFailed;
}

Io ScreenedConnection::Write(Side& side, std::string_view bytes, size_t& count) {
  if (&side == &client && ssl) {
    ERR_clear_error();
    const int sent = SSL_write(ssl.get(), bytes.data(), static_cast<int>(bytes.size()));
    if (sent > 0) {
      count = static_cast<size_t>(sent);
      return Io::kDone;
    }
    const int error = SSL_get_error(ssl.get(), sent);
    ERR_clear_error();
    return error == SSL_ERROR_WANT_WRITE || error == SSL_ERROR_WANT_READ ? Io::kBlocked
                                                                         : Io::kFailed;
  }
  const ssize_t sent = send(side.fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  if (sent > 0) {
    count = static_cast<size_t>(sent);
    return Io::kDone;
  }
  return sent < 0 && (errno == EAGAIN || errno == EINTR) ? Io::kBlocked : Io::kFailed;
}

}  // namespace svcmap::api
