// HTTP endpoints. Used only on the thread of the event loop.
#pragma once

#include <event2/http.h>

#include <chrono>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "api/health/answers.h"
#include "api/health/bind_address.h"
#include "api/health/connections.h"
#include "api/health/event.h"

struct evconnlistener;

namespace svcmap::api {

// A set of listening sockets with a common handler.
class HttpPoint {
 public:
  // A request with any HTTP method.
  struct Request {
    std::string path;  // Without the query string.
    std::string host;  // The Host header without the port. Can be empty.
  };
  using Handler = std::function<Answer(const Request& request)>;

  HttpPoint(event_base* base, Connections& connections, Handler handler);
  ~HttpPoint();

  // Sends `part` to all streams (Answer::is_stream), and to each new stream. A client that has not
  // read the previous part yet skips this part, so at most one part waits for each client.
  void Publish(std::shared_ptr<const std::string> part);

  absl::Status Open(const BindAddress& at, Stack stack);
  size_t socket_count() const { return sockets_.size(); }
  bool IsOpen(const IpAddress& address) const { return sockets_.contains(address); }
  // Closes the listening sockets whose address is not in `kept`. Connections that these sockets
  // accepted stay open.
  void CloseOthers(const std::vector<IpAddress>& kept);

 private:
  struct Socket {
    UniqueFd fd;
    evhttp_bound_socket* bound;
  };
  struct Stream {
    HttpPoint* point;
    evhttp_request* request;
    bool has_part = false;
  };
  struct HttpDeleter {
    void operator()(evhttp* http) const { evhttp_free(http); }
  };

  static bufferevent* OnConnection(event_base* base, void* self);
  static void OnAcceptError(evconnlistener* listener, void* http);
  static void OnRequest(evhttp_request* request, void* self);
  static void OnStreamEnd(evhttp_connection* connection, void* stream);
  void Send(evhttp_request* request);
  void StartStream(evhttp_request* request);
  void SendPart(Stream& stream);
  void Pause(std::chrono::milliseconds time);
  void Resume();

  event_base* base_;
  Connections& connections_;
  Handler handler_;
  std::map<IpAddress, Socket> sockets_;
  std::list<Stream> streams_;
  std::shared_ptr<const std::string> part_;  // The latest part of all streams, or null.
  std::unique_ptr<evhttp, HttpDeleter> http_;
  Event resume_;
  int accepted_ = 0;  // Number of connections accepted since other events were last handled.
};

// A fixed HTTP listen address, such as the address of /metrics. A bind failure is either an error
// or retried (S-258, S-268).
struct ServedAddressOptions {
  BindAddress at;
  bool hard_fail = false;
  std::chrono::milliseconds retry{5000};
  std::string what;  // Paths for log messages: "/healthz and /livez".
};

class ServedAddress {
 public:
  ServedAddress(event_base* base, Connections& connections, HttpPoint::Handler handler,
                ServedAddressOptions options);

  // Returns an error only if `hard_fail` is true.
  absl::Status Open();

 private:
  const ServedAddressOptions options_;
  HttpPoint point_;
  absl::Status failure_;  // The latest failure. The same failure is logged only once.
  Event retry_;
};

}  // namespace svcmap::api
