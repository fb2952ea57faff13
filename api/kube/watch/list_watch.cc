#include "api/kube/watch/list_watch.h"

#include <malloc.h>
#include <spdlog/spdlog.h>

#include <condition_variable>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "api/kube/watch/course.h"
#include "api/kube/wire/content_type.h"
#include "api/kube/wire/decode.h"

namespace svcmap::kube {
namespace {

// Of an answer that is no success.
constexpr size_t kMaxStatusBytes = 64 * 1024;

// A list that takes several times as much in passing, which malloc would keep.
constexpr size_t kBigBody = 4 * 1024 * 1024;

absl::Status ForeignContent(const HttpResponse& response) {
  return absl::InternalError("the response must be protobuf or JSON, but its content type is \"" +
                             response.content_type + "\"");
}

}  // namespace

// Asks what its Course says, and tells it what came. The Course is the thread's alone.
class ListWatch::Worker {
 public:
  Worker(Resource resource, std::unique_ptr<HttpClient> client, ListWatchOptions options,
         Mirror& mirror)
      : resource_(resource),
        client_(std::move(client)),
        course_(resource, std::move(options), mirror,
                [random = std::mt19937_64(std::random_device()())]() mutable {
                  return std::uniform_real_distribution<double>()(random);
                }),
        thread_([this] { Run(); }) {}

  ~Worker() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    stop_.notify_all();
    client_->Stop();
    thread_.join();
  }

  ListWatchFacts facts() const {
    const std::lock_guard lock(mutex_);
    return facts_;
  }

 private:
  using Clock = Course::Clock;

  void Run() {
    while (WaitUntil(course_.not_before())) {
      const Course::Ask ask = course_.Next(Clock::now());
      if (ask.watch) {
        Watch(ask.request);
      } else {
        List(ask);
      }
      Tell();
    }
  }

  void List(const Course::Ask& ask) {
    std::string body;
    bool too_large = false;
    const absl::StatusOr<HttpResponse> response =
        client_->Get(ask.request, [&](const HttpResponse& head, std::string_view piece) {
          if (head.status == 200) {
            course_.Contact(Clock::now());
            too_large = body.size() + piece.size() > ask.max_bytes;
            if (too_large) return absl::ResourceExhaustedError("the answer is too large");
            body += piece;
          } else {
            AppendStatus(body, piece);
          }
          return absl::OkStatus();
        });
    if (stopping()) return;
    const Clock::time_point now = Clock::now();
    if (too_large) {
      std::string().swap(body);
      malloc_trim(0);
      return course_.TooLarge(now);
    }
    if (!response.ok()) return course_.Failed(response.status(), now);
    if (response->status != 200) return Refused(*response, body);
    const std::optional<ContentType> type = ParseContentType(response->content_type);
    if (!type) return course_.Failed(ForeignContent(*response), now);
    absl::StatusOr<ListPage> page = DecodeList(resource_, *type, body, ask.max_items);
    const size_t bytes = body.size();
    const bool big = bytes >= kBigBody;
    std::string().swap(body);
    if (absl::IsResourceExhausted(page.status())) return course_.TooLarge(Clock::now());
    if (!page.ok()) return course_.Unreadable(page.status(), *type, Clock::now());
    course_.Page(*std::move(page), Clock::now(), bytes);
    page = ListPage();
    if (big) malloc_trim(0);
  }

  void Watch(const HttpRequest& request) {
    std::optional<ContentType> type;
    std::optional<WatchDecoder> decoder;
    std::string refusal;
    absl::Status unreadable;
    bool over = false;  // The course has said so.
    const absl::StatusOr<HttpResponse> response =
        client_->Get(request, [&](const HttpResponse& head, std::string_view piece) {
          if (head.status != 200) {
            AppendStatus(refusal, piece);
            return absl::OkStatus();
          }
          if (!decoder) {
            type = ParseContentType(head.content_type);
            if (!type) return ForeignContent(head);
            decoder.emplace(resource_, *type);
          }
          course_.Contact(Clock::now());
          std::vector<WatchEvent> events;
          unreadable = decoder->Feed(piece, events);
          for (const WatchEvent& event : events) {
            over = !course_.Event(event, Clock::now());
            if (over) return absl::CancelledError("the watch has ended");
          }
          Tell();
          return unreadable;
        });
    if (over || stopping()) return;
    const Clock::time_point now = Clock::now();
    if (!unreadable.ok()) return course_.Unreadable(unreadable, *type, now);
    if (!response.ok()) return course_.Failed(response.status(), now);
    if (response->status != 200) return Refused(*response, refusal);
    course_.WatchEnded(now);
  }

  void Refused(const HttpResponse& response, const std::string& body) {
    const ContentType type = ParseContentType(response.content_type).value_or(ContentType::kJson);
    course_.Refused(response.status, response.retry_after, DecodeStatus(type, body), Clock::now());
  }

  static void AppendStatus(std::string& body, std::string_view piece) {
    body += piece.substr(0, kMaxStatusBytes - body.size());
  }

  // False: it is to end.
  bool WaitUntil(Clock::time_point time) {
    std::unique_lock lock(mutex_);
    return !stop_.wait_until(lock, time, [this] { return stopping_; });
  }
  bool stopping() const {
    const std::lock_guard lock(mutex_);
    return stopping_;
  }

  void Tell() {
    for (const Course::Line& line : course_.TakeLines()) {
      spdlog::log(line.warning ? spdlog::level::warn : spdlog::level::info, "{}", line.text);
    }
    const std::lock_guard lock(mutex_);
    facts_ = course_.facts();
  }

  const Resource resource_;
  const std::unique_ptr<HttpClient> client_;
  Course course_;

  mutable std::mutex mutex_;
  std::condition_variable stop_;
  bool stopping_ = false;
  ListWatchFacts facts_;

  std::thread thread_;  // Last: it uses all of the above.
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
