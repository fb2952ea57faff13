#include "api/kube/watch/list_watch.h"

#include <malloc.h>
#include <spdlog/spdlog.h>

#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "api/convert/quote.h"
#include "api/kube/watch/reflector.h"
#include "api/kube/wire/decode.h"
#include "api/source/stop_flag.h"

namespace svcmap::kube {
namespace {

// Maximum number of bytes read from the body of an error response.
constexpr size_t kMaxStatusBytes = 64 * 1024;

// Minimum size of a list response after which malloc_trim is called. Decoding such a response takes
// several times its size, and malloc would keep this memory.
constexpr size_t kBigBody = 4 * 1024 * 1024;

absl::Status CheckContentType(const HttpResponse& response) {
  if (IsProtobufType(response.content_type)) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("the response has content type ",
                                          api::Quote(response.content_type), ", expected \"",
                                          kProtobufType, "\""));
}

}  // namespace

// Sends the requests that the Reflector chooses and passes the results to it. Only the worker
// thread uses the Reflector.
class ListWatch::Worker {
 public:
  Worker(Resource resource, std::unique_ptr<HttpClient> client, ListWatchOptions options,
         Mirror& mirror)
      : resource_(resource),
        client_(std::move(client)),
        reflector_(resource, std::move(options), mirror),
        thread_([this] { Run(); }) {}

  ~Worker() {
    stop_.Set();
    client_->Stop();
    thread_.join();
  }

  ListWatchFacts facts() const {
    const std::lock_guard lock(mutex_);
    return facts_;
  }

 private:
  using Clock = Reflector::Clock;

  void Run() {
    while (stop_.WaitUntil(reflector_.not_before())) {
      const Reflector::Request ask = reflector_.Next(Clock::now());
      if (ask.watch) {
        Watch(ask.request);
      } else {
        List(ask);
      }
      Notify();
    }
  }

  void List(const Reflector::Request& ask) {
    std::string body;
    bool too_large = false;
    const absl::StatusOr<HttpResponse> response =
        client_->Get(ask.request, [&](const HttpResponse& head, std::string_view piece) {
          if (head.status == 200) {
            reflector_.Contact(Clock::now());
            too_large = body.size() + piece.size() > ask.max_bytes;
            if (too_large) return absl::ResourceExhaustedError("the response is too large");
            body += piece;
          } else {
            AppendStatus(body, piece);
          }
          return absl::OkStatus();
        });
    if (stop_.is_set()) return;
    const Clock::time_point now = Clock::now();
    if (too_large) {
      std::string().swap(body);
      malloc_trim(0);
      return reflector_.TooLarge(now);
    }
    if (!response.ok()) return reflector_.Failed(response.status(), now);
    if (response->status != 200) return Rejected(*response, body);
    const absl::Status content_type = CheckContentType(*response);
    if (!content_type.ok()) return reflector_.Failed(content_type, now);
    absl::StatusOr<ListPage> page = DecodeList(resource_, body, ask.max_items);
    const size_t bytes = body.size();
    const bool big = bytes >= kBigBody;
    std::string().swap(body);
    if (absl::IsResourceExhausted(page.status())) return reflector_.TooLarge(Clock::now());
    if (!page.ok()) return reflector_.Unreadable(page.status(), Clock::now());
    reflector_.Page(*std::move(page), Clock::now(), bytes);
    page = ListPage();
    if (big) malloc_trim(0);
  }

  void Watch(const HttpRequest& request) {
    WatchDecoder decoder(resource_);
    std::string rejection;
    absl::Status unreadable;
    bool over = false;  // The Reflector has ended the watch.
    const absl::StatusOr<HttpResponse> response =
        client_->Get(request, [&](const HttpResponse& head, std::string_view piece) {
          if (head.status != 200) {
            AppendStatus(rejection, piece);
            return absl::OkStatus();
          }
          if (absl::Status status = CheckContentType(head); !status.ok()) return status;
          reflector_.Contact(Clock::now());
          std::vector<WatchEvent> events;
          unreadable = decoder.Feed(piece, events);
          for (const WatchEvent& event : events) {
            over = !reflector_.Event(event, Clock::now());
            if (over) return absl::CancelledError("the watch has ended");
          }
          Notify();
          return unreadable;
        });
    if (over || stop_.is_set()) return;
    const Clock::time_point now = Clock::now();
    if (!unreadable.ok()) return reflector_.Unreadable(unreadable, now);
    if (!response.ok()) return reflector_.Failed(response.status(), now);
    if (response->status != 200) return Rejected(*response, rejection);
    reflector_.WatchEnded(now);
  }

  void Rejected(const HttpResponse& response, const std::string& body) {
    reflector_.Rejected(response.status, response.retry_after, DecodeStatus(body), Clock::now());
  }

  static void AppendStatus(std::string& body, std::string_view piece) {
    body += piece.substr(0, kMaxStatusBytes - body.size());
  }

  void Notify() {
    for (const Reflector::Line& line : reflector_.TakeLines()) {
      spdlog::log(line.warning ? spdlog::level::warn : spdlog::level::info, "{}", line.text);
    }
    const std::lock_guard lock(mutex_);
    facts_ = reflector_.facts();
  }

  const Resource resource_;
  const std::unique_ptr<HttpClient> client_;
  Reflector reflector_;

  source::StopFlag stop_;

  mutable std::mutex mutex_;
  ListWatchFacts facts_;

  std::thread thread_;  // Last, because the thread uses all members above.
};

std::unique_ptr<ListWatch> ListWatch::Start(Resource resource, std::unique_ptr<HttpClient> client,
                                            ListWatchOptions options, Mirror& mirror) {
  return std::unique_ptr<ListWatch>(new ListWatch(
      std::make_unique<Worker>(resource, std::move(client), std::move(options), mirror)));
}

ListWatch::ListWatch(std::unique_ptr<Worker> worker) : worker_(std::move(worker)) {}
ListWatch::~ListWatch() = default;

ListWatchFacts ListWatch::facts() const { return worker_->facts(); }

}  // namespace svcmap::kube
