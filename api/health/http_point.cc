#include "api/health/http_point.h"

#include <event2/buffer.h>
#include <event2/listener.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <mutex>

#include "absl/container/flat_hash_map.h"
#include "api/health/connections.h"
#include "api/log/log_value.h"

namespace svcmap::api {
namespace {

// libevent accepts connections until no connection is waiting. After this number of connections in
// a row, the thread handles other events first.
constexpr int kMaxAcceptsInARow = 64;
constexpr std::chrono::milliseconds kAfterAcceptError{100};
constexpr ev_uint16_t kAllMethods = 0xffff;

// Maps listeners to their HttpPoint. libevent passes a pointer from evhttp to the error callback
// for failed accepts, so HttpPoint cannot pass its own pointer. Guarded by owners_mutex.
absl::flat_hash_map<evconnlistener*, HttpPoint*>& Owners() {
  static auto* owners = new absl::flat_hash_map<evconnlistener*, HttpPoint*>();
  return *owners;
}
std::mutex owners_mutex;

// All buffers with this body share its memory.
void AddShared(const std::shared_ptr<const std::string>& body, evbuffer* buffer) {
  using Body = std::shared_ptr<const std::string>;
  evbuffer_add_reference(
      buffer, body->data(), body->size(),
      [](const void*, size_t, void* owner) { delete static_cast<Body*>(owner); }, new Body(body));
}

}  // namespace

HttpPoint::HttpPoint(event_base* base, Connections& connections, Handler handler)
    : base_(base),
      connections_(connections),
      handler_(std::move(handler)),
      http_(evhttp_new(base)),
      resume_(base, [this] { Resume(); }) {
  evhttp_set_allowed_methods(http_.get(), kAllMethods);
  evhttp_set_max_headers_size(http_.get(), kMaxHeaders);
  evhttp_set_max_body_size(http_.get(), kMaxBody);
  evhttp_set_bevcb(http_.get(), OnConnection, this);
  evhttp_set_gencb(http_.get(), OnRequest, this);
}

HttpPoint::~HttpPoint() {
  connections_.Discard(this);
  CloseOthers({});
}

absl::Status HttpPoint::Open(const BindAddress& at, Stack stack) {
  absl::StatusOr<UniqueFd> fd = Listen(at, stack);
  if (!fd.ok()) return fd.status();
  evconnlistener* listener =
      evconnlistener_new(base_, nullptr, nullptr, LEV_OPT_CLOSE_ON_EXEC, 0, fd->get());
  evconnlistener_set_error_cb(listener, OnAcceptError);
  sockets_[at.address] = {*std::move(fd), evhttp_bind_listener(http_.get(), listener)};
  const std::lock_guard lock(owners_mutex);
  Owners()[listener] = this;
  return absl::OkStatus();
}

void HttpPoint::CloseOthers(const std::vector<IpAddress>& kept) {
  std::erase_if(sockets_, [&](const auto& socket) {
    if (std::find(kept.begin(), kept.end(), socket.first) != kept.end()) return false;
    {
      const std::lock_guard lock(owners_mutex);
      Owners().erase(evhttp_bound_socket_get_listener(socket.second.bound));
    }
    evhttp_del_accept_socket(http_.get(), socket.second.bound);
    return true;
  });
}

bufferevent* HttpPoint::OnConnection(event_base*, void* self) {
  auto* point = static_cast<HttpPoint*>(self);
  if (++point->accepted_ == kMaxAcceptsInARow) point->Pause(std::chrono::milliseconds(0));
  return point->connections_.Add();
}

// Handles failed accepts, for example if no file descriptor is free. Pauses the listener, because
// libevent would retry immediately and use a full CPU.
void HttpPoint::OnAcceptError(evconnlistener* listener, void*) {
  const std::lock_guard lock(owners_mutex);
  Owners().at(listener)->Pause(kAfterAcceptError);
}

void HttpPoint::Pause(std::chrono::milliseconds time) {
  for (const auto& [address, socket] : sockets_) {
    evconnlistener_disable(evhttp_bound_socket_get_listener(socket.bound));
  }
  resume_.After(time);
}

void HttpPoint::Resume() {
  accepted_ = 0;
  for (const auto& [address, socket] : sockets_) {
    evconnlistener_enable(evhttp_bound_socket_get_listener(socket.bound));
  }
}

void HttpPoint::OnRequest(evhttp_request* request, void* self) {
  auto* point = static_cast<HttpPoint*>(self);
  point->connections_.Respond(
      evhttp_connection_get_bufferevent(evhttp_request_get_connection(request)), point,
      [point, request] { point->Send(request); });
}

void HttpPoint::Send(evhttp_request* request) {
  const evhttp_uri* uri = evhttp_request_get_evhttp_uri(request);
  const char* path = uri != nullptr ? evhttp_uri_get_path(uri) : nullptr;
  const char* host = evhttp_request_get_host(request);
  const Answer answer =
      handler_({.path = path != nullptr ? path : "", .host = host != nullptr ? host : ""});
  evkeyvalq* headers = evhttp_request_get_output_headers(request);
  for (const auto& [name, value] : answer.headers) {
    evhttp_add_header(headers, name.c_str(), value.c_str());
  }
  const std::string_view text = answer.shared_body ? *answer.shared_body : answer.body;
  evbuffer* body = evhttp_request_get_output_buffer(request);
  if (evhttp_request_get_command(request) == EVHTTP_REQ_HEAD) {
    evhttp_add_header(headers, "Content-Length", std::to_string(text.size()).c_str());
  } else if (answer.is_stream) {
    return StartStream(request);
  } else if (answer.shared_body) {
    AddShared(answer.shared_body, body);
  } else {
    evbuffer_add(body, text.data(), text.size());
  }
  evhttp_send_reply(request, answer.code, /*reason=*/nullptr, nullptr);
}

void HttpPoint::StartStream(evhttp_request* request) {
  evhttp_send_reply_start(request, 200, /*reason=*/nullptr);
  streams_.push_back({.point = this, .request = request});
  evhttp_connection_set_closecb(evhttp_request_get_connection(request), OnStreamEnd,
                                &streams_.back());
  if (part_ != nullptr) SendPart(streams_.back());
}

void HttpPoint::Publish(std::shared_ptr<const std::string> part) {
  part_ = std::move(part);
  for (Stream& stream : streams_) {
    evhttp_connection* connection = evhttp_request_get_connection(stream.request);
    bufferevent* bev = evhttp_connection_get_bufferevent(connection);
    const bool has_read = evbuffer_get_length(bufferevent_get_output(bev)) == 0;
    if (has_read || !stream.has_part) SendPart(stream);
  }
}

void HttpPoint::SendPart(Stream& stream) {
  stream.has_part = true;
  evbuffer* chunk = evbuffer_new();
  AddShared(part_, chunk);
  evhttp_send_reply_chunk(stream.request, chunk);
  evbuffer_free(chunk);
  connections_.KeepStream(
      evhttp_connection_get_bufferevent(evhttp_request_get_connection(stream.request)));
}

// evhttp frees the request if it still belongs to the connection, which is the case in the
// destructor of HttpPoint.
void HttpPoint::OnStreamEnd(evhttp_connection*, void* stream) {
  const auto* ended = static_cast<const Stream*>(stream);
  if (evhttp_request_get_connection(ended->request) == nullptr) evhttp_request_free(ended->request);
  ended->point->streams_.remove_if([ended](const Stream& each) { return &each == ended; });
}

ServedAddress::ServedAddress(event_base* base, Connections& connections, HttpPoint::Handler handler,
                             ServedAddressOptions options)
    : options_(std::move(options)),
      point_(base, connections, std::move(handler)),
      retry_(base, [this] { Open().IgnoreError(); }) {}

absl::Status ServedAddress::Open() {
  absl::Status status = point_.Open(options_.at, Stack::kBoth);
  if (status.ok()) {
    spdlog::info("serving {} address={}", options_.what, options_.at.ToString());
  } else if (!options_.hard_fail) {
    if (status != failure_) {
      spdlog::warn("cannot serve {}, retrying every {} s address={} error={}", options_.what,
                   std::chrono::duration<double>(options_.retry).count(), options_.at.ToString(),
                   LogValue(status));
    }
    retry_.After(options_.retry);
  }
  failure_ = std::move(status);
  return options_.hard_fail ? failure_ : absl::OkStatus();
}

}  // namespace svcmap::api
