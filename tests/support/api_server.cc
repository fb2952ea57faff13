#include "tests/support/api_server.h"

#include <httplib.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/support/kube_store.h"
#include "tests/support/wait.h"

namespace svcmap::testing {
// Tracks open connections, so that Stop can close them.
class OpenConnections {
 public:
  void Follow(SSL_CTX* context) {
    SSL_CTX_set_app_data(context, this);
    SSL_CTX_set_info_callback(context, [](const SSL* ssl, int where, int /*value*/) {
      if ((where & SSL_CB_HANDSHAKE_DONE) == 0) return;
      auto* self = static_cast<OpenConnections*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl)));
      {
        const std::lock_guard lock(self->mutex_);
        self->sockets_[ssl] = SSL_get_fd(ssl);
      }
      SSL_set_ex_data(const_cast<SSL*>(ssl), Index(), self);
    });
  }
  void EndAll() {
    const std::lock_guard lock(mutex_);
    for (const auto& [ssl, socket] : sockets_) ::shutdown(socket, SHUT_RDWR);
  }

 private:
  // Returns the index of the connection in the SSL object's user data. OpenSSL destroys user data
  // with the SSL object, before the socket is closed.
  static int Index() {
    static const int index = SSL_get_ex_new_index(
        0, nullptr, nullptr, nullptr, [](void* ssl, void* self, CRYPTO_EX_DATA*, int, long, void*) {
          if (self == nullptr) return;
          auto* connections = static_cast<OpenConnections*>(self);
          const std::lock_guard lock(connections->mutex_);
          connections->sockets_.erase(ssl);
        });
    return index;
  }

  std::mutex mutex_;
  std::map<const void*, int> sockets_;
};

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr char kAddress[] = "127.0.0.1";
constexpr size_t kThreads = 64;  // Every open connection occupies one thread.
constexpr size_t kSeenKept = 10000;
// Interval at which a watch checks whether the client is still connected.
constexpr milliseconds kTick{50};
// As a real API server.
constexpr milliseconds kBookmarkEvery{60000};
// Duration of a watch in seconds if the request has no timeoutSeconds.
constexpr int kWatchSeconds = 1800;

const char* ReasonOf(int code) {
  switch (code) {
    case 400:
      return "BadRequest";
    case 403:
      return "Forbidden";
    case 404:
      return "NotFound";
    case 406:
      return "NotAcceptable";
    case 409:
      return "Conflict";
    case 410:
      return "Expired";
    case 422:
      return "Invalid";
    case 503:
      return "ServiceUnavailable";
    case 504:
      return "Timeout";
    default:
      return "InternalError";
  }
}

constexpr char kProtobuf[] = "application/vnd.kubernetes.protobuf";

void Respond(httplib::Response& response, int code, const std::string& body) {
  response.status = code;
  response.set_content(body, kProtobuf);
}

void Reject(httplib::Response& response, int code, const std::string& message) {
  Respond(response, code, EncodeStatus(code, ReasonOf(code), message));
}

// The parsed path of a request.
struct Target {
  Collection collection = Collection::kServices;
  std::string name_space, name;  // Both strings are empty if the request lists all namespaces.
};

std::optional<Target> ParseTarget(const std::string& path) {
  for (const Collection collection : kCollections) {
    const CollectionNames& names = NamesOf(collection);
    const std::string version = names.api_version;
    std::string rest =
        absl::StrCat(version.find('/') == std::string::npos ? "/api/" : "/apis/", version, "/");
    if (path.rfind(rest, 0) != 0) continue;
    std::vector<std::string> parts = absl::StrSplit(path.substr(rest.size()), '/');
    Target target{.collection = collection};
    if (names.namespaced && parts.size() >= 3 && parts[0] == "namespaces") {
      target.name_space = parts[1];
      parts.erase(parts.begin(), parts.begin() + 2);
    }
    if (parts[0] != names.plural || parts.size() > 2) continue;
    if (parts.size() == 2) target.name = parts[1];
    return target;
  }
  return std::nullopt;
}

absl::Status WriteFile(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::trunc);
  file << text;
  file.close();
  if (!file) return absl::UnavailableError("cannot write " + path);
  return absl::OkStatus();
}

}  // namespace

struct FakeApiServer::Impl {
  const NetNs* netns = nullptr;
  CertificateAuthority authority{"kube-ca"};
  const KeyPair pair = authority.Issue("kube-apiserver", absl::StrCat("IP:", kAddress));
  int port = 0;
  KubeStore store;
  OpenConnections connections;
  std::unique_ptr<httplib::SSLServer> server;
  std::thread listener;

  mutable std::mutex mutex;
  // The mutex guards the following members.
  std::vector<Fault> faults;
  std::deque<SeenRequest> seen;
  uint64_t first_seen = 0;  // Number of the request at the front of `seen`.
  bool before_131 = false;
  int64_t always_page = 0;
  // Frozen state of each collection. Lists of collections without an entry show the current state.
  std::map<Collection, KubeStore::Snapshot> cache;
  std::map<std::string, std::string> events;  // Bodies by namespace and name.
  uint64_t next_page = 0;
  // Unfinished lists, by the number in the continue token.
  std::map<uint64_t, std::shared_ptr<const KubeStore::Snapshot>> pages;

  std::atomic<bool> stopping = false;
  std::atomic<uint64_t> healed = 0;
  std::atomic<uint64_t> ended = 0;  // Number of EndWatches calls.
  std::atomic<int> open_watches = 0;

  // ---- The listener ----

  absl::Status Listen() {
    stopping = false;
    server = std::make_unique<httplib::SSLServer>([&](SSL_CTX& context) {
      connections.Follow(&context);
      return UsePair(&context, pair);
    });
    server->new_task_queue = [] { return new httplib::ThreadPool(kThreads); };
    server->set_keep_alive_max_count(1 << 30);
    server->set_keep_alive_timeout(600);
    server->set_tcp_nodelay(true);
    server->Get(".*", [&](const httplib::Request& request, httplib::Response& response) {
      Handle(request, response);
    });
    server->Patch(".*", [&](const httplib::Request& request, httplib::Response& response) {
      HandleWrite(request, response, "nodes");
    });
    server->Post(".*", [&](const httplib::Request& request, httplib::Response& response) {
      HandleWrite(request, response, "events");
    });
    const bool bound = InNamespace([&] {
      if (port > 0) return server->bind_to_port(kAddress, port);
      port = server->bind_to_any_port(kAddress);
      return port > 0;
    });
    if (!bound) return absl::UnavailableError(absl::StrCat("cannot listen on port ", port));
    listener = std::thread([&] { server->listen_after_bind(); });
    return Eventually("the API server runs", [&] { return server->is_running(); });
  }

  bool InNamespace(const std::function<bool()>& act) const {
    return netns == nullptr ? act() : netns->Run(act);
  }

  void End() {
    if (!listener.joinable()) return;
    stopping = true;
    server->stop();
    // Repeat the calls until the listener has stopped, because new connections can still arrive.
    std::atomic<bool> done = false;
    std::thread closer([&] {
      while (!done) {
        connections.EndAll();
        store.Wake();
        std::this_thread::sleep_for(milliseconds(1));
      }
    });
    listener.join();
    done = true;
    closer.join();
    server.reset();
  }

  // ---- Faults ----

  // Returns the fault for this request.
  std::optional<Fault> Strike(Collection collection, bool watch, bool later_page,
                              Fault::What what) {
    return Strike(NamesOf(collection).plural, watch, later_page, /*write=*/false, what);
  }
  std::optional<Fault> Strike(const std::string& collection, bool watch, bool later_page,
                              bool write, Fault::What what) {
    const std::lock_guard lock(mutex);
    for (const Fault& fault : faults) {
      if (fault.what != what) continue;
      if (!fault.collection.empty() && fault.collection != collection) continue;
      if (fault.where != Fault::Where::kEverywhere &&
          write != (fault.where == Fault::Where::kWrites))
        continue;
      if (fault.where == Fault::Where::kLists && watch) continue;
      if (fault.where == Fault::Where::kWatches && !watch) continue;
      if (fault.where == Fault::Where::kLaterPages && !later_page) continue;
      return fault;
    }
    return std::nullopt;
  }

  // Blocks until Heal() is called, the server stops or the client disconnects.
  void Hang(const std::function<bool()>& client_is_there) const {
    const uint64_t at = healed;
    uint64_t seen_number = 0;
    while (!stopping && healed == at && client_is_there()) {
      seen_number = store.WaitForMore(seen_number, kTick);
    }
  }

  // ---- Requests ----

  uint64_t Remember(const httplib::Request& request) {
    SeenRequest entry{.method = request.method, .path = request.path};
    for (const auto& [name, value] : request.params) entry.query[name] = value;
    for (const auto& [name, value] : request.headers) {
      std::string lower = name;
      std::transform(lower.begin(), lower.end(), lower.begin(),
                     [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
      entry.headers[lower] = value;
    }
    const std::lock_guard lock(mutex);
    seen.push_back(std::move(entry));
    if (seen.size() > kSeenKept) {
      seen.pop_front();
      ++first_seen;
    }
    return first_seen + seen.size() - 1;
  }
  void SetAnswered(uint64_t number, int status) {
    const std::lock_guard lock(mutex);
    if (number >= first_seen) seen[number - first_seen].answered = status;
  }

  void Handle(const httplib::Request& request, httplib::Response& response) {
    // A compressor would buffer the events of a watch. The const_cast is valid because the request
    // object itself is not const.
    const_cast<httplib::Request&>(request).headers.erase("Accept-Encoding");
    if (const auto target = ParseTarget(request.path)) {
      const uint64_t number = Remember(request);
      HandleObjects(request, response, *target);
      SetAnswered(number, response.status);
      return;
    }
    Reject(response, 404, "the server could not find the requested resource");
  }

  void HandleWrite(const httplib::Request& request, httplib::Response& response,
                   const std::string& collection) {
    const uint64_t number = Remember(request);
    if (const auto fault = Strike(collection, false, false, /*write=*/true, Fault::What::kStatus)) {
      Reject(response, fault->code,
             absl::StrCat("User \"someone\" cannot ", request.method, " resource \"", collection,
                          "\""));
    } else if (collection == "events") {
      CreateEvent(request, response);
    } else {
      PatchTaints(request, response);
    }
    SetAnswered(number, response.status);
  }

  void CreateEvent(const httplib::Request& request, httplib::Response& response) {
    const nlohmann::json event = nlohmann::json::parse(request.body, nullptr, false);
    const std::string name_space =
        event.value(nlohmann::json::json_pointer("/metadata/namespace"), "");
    const std::string name = event.value(nlohmann::json::json_pointer("/metadata/name"), "");
    if (request.path != absl::StrCat("/apis/events.k8s.io/v1/namespaces/", name_space, "/events") ||
        request.get_header_value("Content-Type") != "application/json" || name.empty()) {
      return Reject(response, 400, "not an Event of this namespace");
    }
    const std::lock_guard lock(mutex);
    const std::string key = absl::StrCat(name_space, "/", name);
    if (!events.emplace(key, request.body).second) {
      return Reject(response, 409, absl::StrCat("events \"", key, "\" already exists"));
    }
    response.status = 201;
  }

  void PatchTaints(const httplib::Request& request, httplib::Response& response) {
    const auto target = ParseTarget(request.path);
    const StoredObjectPtr stored = target && target->collection == Collection::kNodes
                                       ? store.Get(Collection::kNodes, target->name)
                                       : nullptr;
    if (stored == nullptr) return Reject(response, 404, "no such Node");
    if (request.get_header_value("Content-Type") != "application/json-patch+json") {
      return Reject(response, 415, "only JSON patches are supported");
    }
    v1::Object object = stored->object();
    v1::NodeSpec& spec = *object.mutable_node()->mutable_spec();
    nlohmann::json node = {{"spec", {{"taints", nlohmann::json::array()}}}};
    for (const v1::Taint& taint : spec.taints()) {
      node["spec"]["taints"].push_back(
          {{"key", taint.key()}, {"value", taint.value()}, {"effect", taint.effect()}});
    }
    try {
      node = node.patch(nlohmann::json::parse(request.body));
    } catch (const nlohmann::json::exception& error) {
      return Reject(response, 422, error.what());
    }
    spec.clear_taints();
    for (const nlohmann::json& from : node["spec"]["taints"]) {
      v1::Taint& taint = *spec.add_taints();
      taint.set_key(from["key"]);
      taint.set_value(from["value"]);
      taint.set_effect(from["effect"]);
    }
    store.Put(object);
    HandleGet(response, *target);
  }

  void HandleObjects(const httplib::Request& request, httplib::Response& response,
                     const Target& target) {
    const std::string watch_value = request.get_param_value("watch");
    const bool watch = watch_value == "1" || watch_value == "true";
    const bool later_page = request.has_param("continue");
    const auto strike = [&](Fault::What what) {
      return Strike(target.collection, watch, later_page, what);
    };
    if (!watch && strike(Fault::What::kHang)) {
      Hang([&] {
        char byte;
        return ::recv(SSL_get_fd(request.ssl), &byte, 1, MSG_PEEK | MSG_DONTWAIT) != 0;
      });
      return Reject(response, 504, "Timeout: request did not complete");
    }
    if (const auto fault = strike(Fault::What::kStatus)) {
      return Reject(response, fault->code, "it was made to fail");
    }
    if (request.get_header_value("Accept").find(kProtobuf) == std::string::npos) {
      return Reject(response, 406, "only protobuf is supported");
    }
    if (target.collection == Collection::kServiceCidrs) {
      const std::lock_guard lock(mutex);
      if (before_131) {
        response.status = 404;  // For an unknown path, a real server also sends no Status body.
        return response.set_content("404 page not found\n", "text/plain; charset=utf-8");
      }
    }
    if (!target.name.empty()) return HandleGet(response, target);
    std::string fields = request.get_param_value("fieldSelector");
    if (fields.find("spec.") != std::string::npos) {
      const std::lock_guard lock(mutex);
      if (before_131) return Reject(response, 400, "field label not supported");
    }
    if (!target.name_space.empty()) {
      absl::StrAppend(&fields, ",metadata.namespace=", target.name_space);
    }
    const auto selector =
        KubeSelector::Parse(target.collection, request.get_param_value("labelSelector"), fields);
    if (!selector.ok()) {
      return Reject(response, 400, std::string(selector.status().message()));
    }
    if (watch) return HandleWatch(request, response, target.collection, *selector);
    HandleList(request, response, target.collection, *selector);
  }

  void HandleGet(httplib::Response& response, const Target& target) {
    const StoredObjectPtr object =
        store.Get(target.collection, target.name_space.empty()
                                         ? target.name
                                         : absl::StrCat(target.name_space, "/", target.name));
    if (object == nullptr) {
      return Reject(
          response, 404,
          absl::StrCat(NamesOf(target.collection).plural, " \"", target.name, "\" not found"));
    }
    Respond(response, 200, EncodeObject(target.collection, object->item()));
  }

  // Returns the state that a list with this resourceVersion shows.
  KubeStore::Snapshot ListFor(Collection collection, const std::string& version) const {
    const std::lock_guard lock(mutex);
    if (version.empty() || cache.empty()) return store.List(collection);
    return cache.at(collection);
  }

  // Answers the first or a later page of a list. The continue token has the form "NUMBER:POSITION".
  void HandleList(const httplib::Request& request, httplib::Response& response,
                  Collection collection, const KubeSelector& selector) {
    const std::string version = request.get_param_value("resourceVersion");
    int64_t limit = 0;
    (void)absl::SimpleAtoi(request.get_param_value("limit"), &limit);
    std::shared_ptr<const KubeStore::Snapshot> snapshot;
    uint64_t number = 0;
    size_t position = 0;
    if (const std::string token_text = request.get_param_value("continue"); !token_text.empty()) {
      if (!version.empty() && version != "0") {
        return Reject(response, 400,
                      "specifying resource version is not allowed when using continue");
      }
      const std::vector<std::string> parts = absl::StrSplit(token_text, ':');
      const std::lock_guard lock(mutex);
      if (parts.size() != 2 || !absl::SimpleAtoi(parts[0], &number) ||
          !absl::SimpleAtoi(parts[1], &position)) {
        return Reject(response, 400, "continue key is not valid");
      }
      const auto found = pages.find(number);
      if (found == pages.end()) {
        return Reject(response, 410,
                      "The provided continue parameter is too old to display a consistent list "
                      "result.");
      }
      snapshot = found->second;
      if (always_page > 0) limit = limit > 0 ? std::min(limit, always_page) : always_page;
    } else {
      uint64_t at_least = 0;
      if (!version.empty() && !absl::SimpleAtoi(version, &at_least)) {
        return Reject(response, 400, "Invalid value: \"" + version + "\"");
      }
      KubeStore::Snapshot all = ListFor(collection, version);
      if (at_least > all.version) {
        return Reject(response, 504, "Timeout: Too large resource version");
      }
      // The frozen cache contains only one version, so the server cannot answer a list that
      // requires a newer version.
      if (limit > 0 && at_least > 0 && at_least < all.version) {
        return Reject(response, 410, "The resourceVersion for the provided list is too old.");
      }
      auto selected = std::make_shared<KubeStore::Snapshot>();
      selected->version = all.version;
      for (StoredObjectPtr& object : all.objects) {
        if (selector.Matches(object->object())) selected->objects.push_back(std::move(object));
      }
      snapshot = std::move(selected);
      const std::lock_guard lock(mutex);
      if (version == "0") limit = 0;  // Lists from the server's cache are not divided into pages.
      if (always_page > 0) limit = limit > 0 ? std::min(limit, always_page) : always_page;
      number = ++next_page;
      if (limit > 0) pages[number] = snapshot;
    }
    const size_t end =
        limit > 0 ? std::min(snapshot->objects.size(), position + static_cast<size_t>(limit))
                  : snapshot->objects.size();
    std::vector<const std::string*> items;
    for (size_t i = position; i < end; ++i) items.push_back(&snapshot->objects[i]->item());
    const size_t left = snapshot->objects.size() - end;
    std::string body =
        EncodeList(collection, items, snapshot->version,
                   left > 0 ? absl::StrCat(number, ":", end) : "", static_cast<int64_t>(left));
    if (Strike(collection, false, position > 0, Fault::What::kTruncate)) {
      body.resize(body.size() / 2);
    }
    Respond(response, 200, body);
  }

  // ---- Watches ----

  struct Watch {
    Collection collection;
    KubeSelector selector;
    uint64_t version = 0;  // The last version that the client received.
    bool bookmarks = false;
    Clock::time_point end, next_bookmark;
    uint64_t ended = 0;
    uint64_t seen = 0;
  };

  void HandleWatch(const httplib::Request& request, httplib::Response& response,
                   Collection collection, const KubeSelector& selector) {
    int seconds = 0;
    if (!absl::SimpleAtoi(request.get_param_value("timeoutSeconds"), &seconds) || seconds <= 0) {
      seconds = kWatchSeconds;
    }
    auto watch = std::make_shared<Watch>(Watch{.collection = collection,
                                               .selector = selector,
                                               .end = Clock::now() + std::chrono::seconds(seconds),
                                               .ended = ended});
    const std::string bookmarks = request.get_param_value("allowWatchBookmarks");
    watch->bookmarks = bookmarks == "1" || bookmarks == "true";
    watch->next_bookmark = Clock::now() + kBookmarkEvery;
    (void)absl::SimpleAtoi(request.get_param_value("resourceVersion"), &watch->version);
    response.status = 200;
    ++open_watches;
    response.set_chunked_content_provider(
        std::string(kProtobuf) + ";stream=watch",
        [this, watch](size_t, httplib::DataSink& sink) { return GoOn(*watch, sink); },
        [this](bool) { --open_watches; });
  }

  static std::string Frame(const Watch& watch, const char* type, const StoredObject& object) {
    return EncodeEvent(type, EncodeObject(watch.collection, object.item()));
  }

  // Returns the event for this watch, or an empty string if the event does not concern the watch.
  // An object that starts to match the selector is ADDED, and an object that no longer matches is
  // DELETED.
  static std::string FrameOf(const Watch& watch, const KubeStore::Event& event) {
    const bool before = event.before != nullptr && watch.selector.Matches(event.before->object());
    const bool after = event.after != nullptr && watch.selector.Matches(event.after->object());
    if (after) return Frame(watch, before ? "MODIFIED" : "ADDED", *event.after);
    return before ? Frame(watch, "DELETED", *event.before) : "";
  }

  static std::string ErrorFrame(int code, const std::string& message) {
    return EncodeEvent("ERROR", EncodeStatus(code, ReasonOf(code), message));
  }

  // Sends the pending events, then waits once for more events. Returns false if the connection must
  // be closed before the end of the body.
  bool GoOn(Watch& watch, httplib::DataSink& sink) {
    const auto send = [&](const std::string& frame) {
      return sink.write(frame.data(), frame.size());
    };
    if (stopping || !sink.is_writable()) return false;
    if (Strike(watch.collection, true, false, Fault::What::kHang)) {
      Hang([&] { return sink.is_writable(); });
      return false;
    }
    const bool broken = Strike(watch.collection, true, false, Fault::What::kTruncate).has_value();

    // Read the number first, so that events stored after this point wake the thread.
    const uint64_t seen_number = store.WaitForMore(watch.seen, milliseconds(0));
    const uint64_t version = store.version();
    const auto events = store.EventsAfter(watch.collection, watch.version);
    if (!events.ok()) {
      if (!send(ErrorFrame(410, std::string(events.status().message())))) return false;
      sink.done();
      return true;
    }
    std::string frames;
    for (const KubeStore::Event& event : *events) {
      frames += FrameOf(watch, event);
      watch.version = event.version;
    }
    // The watch has received all events up to this version.
    watch.version = std::max(watch.version, version);
    const Clock::time_point now = Clock::now();
    const bool over = now >= watch.end || ended != watch.ended;
    if (watch.bookmarks && (over || now >= watch.next_bookmark || (broken && frames.empty()))) {
      frames += EncodeEvent("BOOKMARK", EncodeBookmark(watch.collection, watch.version));
      watch.next_bookmark = now + kBookmarkEvery;
    }
    if (broken) {
      if (!send(frames.substr(0, frames.size() / 2))) return false;
      sink.done();
      return true;
    }
    if (!frames.empty() && !send(frames)) return false;
    if (over) {
      sink.done();
      return true;
    }
    watch.seen = store.WaitForMore(seen_number, kTick);
    return true;
  }
};

FakeApiServer::FakeApiServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

FakeApiServer::~FakeApiServer() { impl_->End(); }

absl::StatusOr<std::unique_ptr<FakeApiServer>> FakeApiServer::Start(const NetNs* netns) {
  auto impl = std::make_unique<Impl>();
  impl->netns = netns;
  if (absl::Status status = impl->Listen(); !status.ok()) return status;
  return std::unique_ptr<FakeApiServer>(new FakeApiServer(std::move(impl)));
}

void FakeApiServer::Put(const Objects& objects) {
  for (const v1::Object& object : objects) impl_->store.Put(object);
}

void FakeApiServer::Remove(const std::vector<v1::ObjectRef>& refs) {
  for (const v1::ObjectRef& ref : refs) {
    const auto collection = static_cast<Collection>(ref.kind() - v1::KIND_SERVICE);
    const std::string key =
        ref.namespace_().empty() ? ref.name() : absl::StrCat(ref.namespace_(), "/", ref.name());
    if (!impl_->store.Remove(collection, key)) std::abort();
  }
}

Objects FakeApiServer::objects() const {
  Objects objects;
  for (const Collection collection : kCollections) {
    for (const StoredObjectPtr& object : impl_->store.List(collection).objects) {
      objects.push_back(object->object());
    }
  }
  return objects;
}

std::vector<std::string> FakeApiServer::taints(const std::string& node) const {
  std::vector<std::string> keys;
  const StoredObjectPtr stored = impl_->store.Get(Collection::kNodes, node);
  if (stored == nullptr) return keys;
  for (const v1::Taint& taint : stored->object().node().spec().taints()) {
    keys.push_back(taint.key());
  }
  return keys;
}

std::vector<std::string> FakeApiServer::events() const {
  const std::lock_guard lock(impl_->mutex);
  std::vector<std::string> events;
  for (const auto& [key, event] : impl_->events) events.push_back(event);
  return events;
}

void FakeApiServer::ForgetEvents() { impl_->store.ForgetEvents(); }

void FakeApiServer::FreezeCache() {
  const std::lock_guard lock(impl_->mutex);
  for (const Collection collection : kCollections) {
    impl_->cache[collection] = impl_->store.List(collection);
  }
}

void FakeApiServer::AlwaysPage(int64_t objects) {
  const std::lock_guard lock(impl_->mutex);
  impl_->always_page = objects;
}

void FakeApiServer::BeBefore131() {
  const std::lock_guard lock(impl_->mutex);
  impl_->before_131 = true;
}

absl::Status FakeApiServer::WriteKubeconfig(const std::string& path) const {
  const auto data = [](const std::string& pem) {
    std::string text;
    absl::Base64Escape(pem, &text);
    return text;
  };
  const nlohmann::ordered_json config = {
      {"apiVersion", "v1"},
      {"kind", "Config"},
      {"clusters",
       {{{"name", "double"},
         {"cluster",
          {{"server", url()},
           {"certificate-authority-data", data(impl_->authority.certificate())}}}}}},
      {"users", {{{"name", "someone"}, {"user", {{"token", "anybody"}}}}}},
      {"contexts", {{{"name", "it"}, {"context", {{"cluster", "double"}, {"user", "someone"}}}}}},
      {"current-context", "it"}};
  return WriteFile(path, config.dump(2) + "\n");
}

absl::Status FakeApiServer::WriteIdentity(const std::string& certificate,
                                          const std::string& key) const {
  const absl::Status status = WriteFile(certificate, impl_->pair.certificate);
  return status.ok() ? WriteFile(key, impl_->pair.key) : status;
}

uint16_t FakeApiServer::port() const { return static_cast<uint16_t>(impl_->port); }
std::string FakeApiServer::url() const {
  return absl::StrCat("https://", kAddress, ":", impl_->port);
}

void FakeApiServer::Stop() { impl_->End(); }

absl::Status FakeApiServer::StartAgain() { return impl_->Listen(); }

void FakeApiServer::Fail(Fault fault) {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->faults.push_back(std::move(fault));
  }
  impl_->store.Wake();
}

void FakeApiServer::Heal() {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->faults.clear();
    impl_->cache.clear();
  }
  ++impl_->healed;
  impl_->store.Wake();
}

void FakeApiServer::EndWatches() {
  ++impl_->ended;
  impl_->store.Wake();
}

std::vector<SeenRequest> FakeApiServer::requests() const {
  const std::lock_guard lock(impl_->mutex);
  return {impl_->seen.begin(), impl_->seen.end()};
}

int FakeApiServer::lists(const std::string& collection) const {
  const std::vector<SeenRequest> all = requests();
  return static_cast<int>(std::count_if(all.begin(), all.end(), [&](const SeenRequest& request) {
    return !request.watch() && request.path.substr(request.path.rfind('/') + 1) == collection;
  }));
}
int FakeApiServer::open_watches() const { return impl_->open_watches; }

}  // namespace svcmap::testing
