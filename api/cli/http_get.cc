#include "api/cli/http_get.h"

#include <curl/curl.h>

#include <memory>

#include "absl/strings/str_cat.h"
#include "api/convert/quote.h"
#include "nft/base/status.h"

namespace svcmap::api {
namespace {

using Curl = std::unique_ptr<CURL, decltype(&curl_easy_cleanup)>;

constexpr size_t kMaxBody = size_t{128} << 20;
constexpr size_t kMaxHeaders = size_t{1} << 20;

struct Page {
  std::string body;
  size_t header_bytes = 0;  // Headers and trailers.
};

// Both functions return 0 to end the transfer.
size_t AddBody(const char* data, size_t, size_t bytes, void* page) {
  std::string& body = static_cast<Page*>(page)->body;
  if (body.size() + bytes > kMaxBody) return 0;
  body.append(data, bytes);
  return bytes;
}
size_t AddHeader(const char*, size_t, size_t bytes, void* page) {
  size_t& all = static_cast<Page*>(page)->header_bytes;
  all += bytes;
  return all > kMaxHeaders ? 0 : bytes;
}

absl::Status ErrorOf(CURL* easy, CURLcode code) {
  long number = 0;
  switch (code) {
    case CURLE_OK:
      curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &number);
      if (number == 200) return absl::OkStatus();
      return absl::UnavailableError(absl::StrCat("HTTP status ", number));
    case CURLE_WRITE_ERROR:
      return absl::ResourceExhaustedError(
          "Too large: must have at most 128 MiB, and 1 MiB of headers");
    case CURLE_OPERATION_TIMEDOUT:
      return absl::DeadlineExceededError("timed out");
    case CURLE_COULDNT_CONNECT:
      curl_easy_getinfo(easy, CURLINFO_OS_ERRNO, &number);
      if (number != 0) return ErrnoStatus(static_cast<int>(number), "connect");
      [[fallthrough]];
    default:
      return absl::UnavailableError(curl_easy_strerror(code));
  }
}

}  // namespace

absl::StatusOr<std::string> HttpGet(const std::string& address, const std::string& path,
                                    std::chrono::milliseconds timeout) {
  const std::string url = absl::StrCat("http://", address, path);
  if (address.rfind(':') == std::string::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("--metrics-address: Invalid value: ", Quote(address), ": must be HOST:PORT"));
  }
  const Curl easy(curl_easy_init(), curl_easy_cleanup);
  Page page;
  curl_easy_setopt(easy.get(), CURLOPT_URL, url.c_str());
  curl_easy_setopt(easy.get(), CURLOPT_PROXY, "");  // Ignores environment variables.
  curl_easy_setopt(easy.get(), CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy.get(), CURLOPT_TIMEOUT_MS, static_cast<long>(timeout.count()));
  curl_easy_setopt(easy.get(), CURLOPT_WRITEFUNCTION, AddBody);
  curl_easy_setopt(easy.get(), CURLOPT_WRITEDATA, &page);
  curl_easy_setopt(easy.get(), CURLOPT_HEADERFUNCTION, AddHeader);
  curl_easy_setopt(easy.get(), CURLOPT_HEADERDATA, &page);
  const absl::Status status = ErrorOf(easy.get(), curl_easy_perform(easy.get()));
  if (!status.ok()) return Annotate(status, "read " + url);
  return std::move(page.body);
}

}  // namespace svcmap::api
