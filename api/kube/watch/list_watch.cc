#include "api/kube/watch/list_watch.h"

#include <malloc.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "api/convert/quote.h"
#include "api/kube/wire/decode.h"

namespace svcmap::kube {
namespace {

using Clock = Reflector::Clock;

// Maximum number of bytes read from the body of an error response.
constexpr size_t kMaxStatusBytes = 64 * 1024;

// Minimum size of a list response after which malloc_trim is called. Decoding such a response takes
// several times its size, and malloc would keep this memory.
constexpr size_t kBigBody = 4 * 1024 * 1024;

}  // namespace

// Sends the requests for one resource that the Reflector chooses, and passes the results to it.
class ListWatches::ListWatch : private HttpTransfer {
 public:
  ListWatch(Resource resource, ListWatches& all, const ListWatchOptions& options, Mirror& mirror)
      : HttpTransfer(all.client_),
        resource_(resource),
        all_(all),
        reflector_(resource, options, mirror) {}

  // Starts the next request if it is due. Returns when Step must be called again, unless the
  // current request ends earlier.
  Clock::time_point Step() {
    const Clock::time_point now = Clock::now();
    if (!busy() && reflector_.not_before() <= now) {
      ask_ = reflector_.Next(now);
      body_.clear();
      decoder_.emplace(resource_);
      Send(ask_.request);
    }
    return busy() ? Clock::time_point::max() : reflector_.not_before();
  }

 private:
  bool OnBody(const HttpResponse& head, std::string_view piece) override {
    if (head.status != 200) {
      body_ += piece.substr(0, kMaxStatusBytes - body_.size());
      return true;
    }
    const Clock::time_point now = Clock::now();
    bool more = false;
    if (!IsProtobufType(head.content_type)) {
      reflector_.Failed(absl::InternalError(absl::StrCat("the response has content type ",
                                                         api::Quote(head.content_type),
                                                         ", expected \"", kProtobufType, "\"")),
                        now);
    } else if (ask_.watch) {
      more = HandleEvents(piece, now);
    } else if (body_.size() + piece.size() <= ask_.max_bytes) {
      reflector_.Contact(now);
      body_ += piece;
      return true;
    } else {
      std::string().swap(body_);
      malloc_trim(0);
      reflector_.TooLarge(now);
    }
    Notify();
    return more;
  }

  // Returns false if the watch is over.
  bool HandleEvents(std::string_view piece, Clock::time_point now) {
    reflector_.Contact(now);
    std::vector<WatchEvent> events;
    const absl::Status status = decoder_->Feed(piece, events);
    for (const WatchEvent& event : events) {
      if (!reflector_.Event(event, now)) return false;
    }
    if (!status.ok()) reflector_.Unreadable(status, now);
    return status.ok();
  }

  void OnEnd(const absl::StatusOr<HttpResponse>& response) override {
    const Clock::time_point now = Clock::now();
    if (!response.ok()) {
      reflector_.Failed(response.status(), now);
    } else if (response->status != 200) {
      reflector_.Rejected(response->status, response->retry_after, DecodeStatus(body_), now);
    } else if (ask_.watch) {
      reflector_.WatchEnded(now);
    } else {
      HandlePage();
    }
    Notify();
  }

  void HandlePage() {
    const size_t bytes = body_.size();
    absl::StatusOr<ListPage> page = DecodeList(resource_, body_, ask_.max_items);
    std::string().swap(body_);
    if (page.ok()) {
      reflector_.Page(*std::move(page), Clock::now(), bytes);
      page = ListPage();
    } else if (absl::IsResourceExhausted(page.status())) {
      reflector_.TooLarge(Clock::now());
    } else {
      reflector_.Unreadable(page.status(), Clock::now());
    }
    if (bytes >= kBigBody) malloc_trim(0);
  }

  void Notify() {
    const std::lock_guard lock(all_.mutex_);
    all_.facts_[static_cast<size_t>(resource_)] = reflector_.facts();
  }

  const Resource resource_;
  ListWatches& all_;
  Reflector reflector_;
  Reflector::Request ask_;               // The current request.
  std::string body_;                     // Of a list or an error.
  std::optional<WatchDecoder> decoder_;  // Of a watch.
};

// Sends the requests that an ObjectWriter chooses, and passes the results to it.
class ListWatches::ObjectWrite : private HttpTransfer {
 public:
  ObjectWrite(ListWatches& all, ObjectWriter& writer)
      : HttpTransfer(all.client_), all_(all), writer_(writer) {}

  // Like ListWatch::Step.
  Clock::time_point Step() {
    std::unique_lock lock(all_.mutex_);
    if (busy() || writer_.not_before() > Clock::now()) {
      return busy() ? Clock::time_point::max() : writer_.not_before();
    }
    body_.clear();
    const HttpRequest request = writer_.Next();
    lock.unlock();
    Send(request);
    return Clock::now();
  }

 private:
  bool OnBody(const HttpResponse&, std::string_view piece) override {
    body_ += piece.substr(0, source::kMaxObjectBytes - body_.size());
    return true;
  }

  void OnEnd(const absl::StatusOr<HttpResponse>& response) override {
    const std::lock_guard lock(all_.mutex_);
    writer_.Ended(response, body_, Clock::now());
  }

  ListWatches& all_;
  ObjectWriter& writer_;
  std::string body_;
};

ListWatches::ListWatches(const ApiServer& server, const std::string& user_agent,
                         const ListWatchOptions& options, Mirror& mirror,
                         const WriteOptions& writes)
    : client_(server, user_agent) {
  const std::string& node = options.selection.node_name;
  if (!writes.startup_taint.empty()) {
    taint_.emplace(node, writes.startup_taint);
    writes_.push_back(std::make_unique<ObjectWrite>(*this, *taint_));
  }
  if (writes.events) {
    events_.emplace(node);
    writes_.push_back(std::make_unique<ObjectWrite>(*this, *events_));
  }
  for (const Resource resource : kResources) {
    watches_.push_back(std::make_unique<ListWatch>(resource, *this, options, mirror));
  }
  thread_ = std::thread([this] { Run(); });
}

ListWatches::~ListWatches() {
  client_.Stop();
  thread_.join();
}

void ListWatches::Run() {
  Clock::time_point until;
  do {
    until = Clock::time_point::max();
    for (const auto& watch : watches_) until = std::min(until, watch->Step());
    for (const auto& write : writes_) until = std::min(until, write->Step());
  } while (client_.Run(until));
}

ListWatches::Facts ListWatches::facts() const {
  const std::lock_guard lock(mutex_);
  return facts_;
}

void ListWatches::ServicesProgrammed() {
  const std::lock_guard lock(mutex_);
  if (taint_) taint_->ServicesProgrammed(Clock::now());
  client_.Wake();
}

void ListWatches::Report(const source::Finding& finding) {
  const std::lock_guard lock(mutex_);
  if (events_) events_->Report(finding, Clock::now());
  client_.Wake();
}

std::string ListWatches::startup_taint_error() const {
  const std::lock_guard lock(mutex_);
  return taint_ ? taint_->last_error() : "";
}

}  // namespace svcmap::kube
