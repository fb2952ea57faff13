// Implements `svcmapctl fleet serve`: reads the state of the fleet periodically, and serves it to
// browsers.
#include <grpc/grpc.h>
#include <openssl/sha.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <string_view>
#include <thread>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "api/cli/commands.h"
#include "api/cli/fleet_observer.h"
#include "api/cli/fleet_page.h"
#include "api/cli/fleet_reader.h"
#include "api/health/connections.h"
#include "api/health/event.h"
#include "api/health/http_point.h"
#include "api/log/set_up_log.h"
#include "api/process/clock_watch.h"

namespace svcmap::api {
namespace {

using std::chrono::steady_clock;

constexpr size_t kMaxClients = 32;
constexpr std::chrono::seconds kPatience{30};  // A client that receives nothing is disconnected.
constexpr std::chrono::seconds kLeastInterval{1};
constexpr std::chrono::seconds kGreatestInterval{15};  // Clients receive something in kPatience.
constexpr std::chrono::seconds kClockInterval{1};
constexpr int kIdleShare = 20;  // Reading from etcd usually takes at most 1/20 of the time.

// Returns the hash of the text of an element, with which Content-Security-Policy permits only this
// text.
std::string HashOf(std::string_view page, std::string_view element) {
  const size_t begin = page.find(absl::StrCat("<", std::string(element), ">")) + element.size() + 2;
  const std::string_view text =
      page.substr(begin, page.find(absl::StrCat("</", std::string(element), ">"), begin) - begin);
  unsigned char hash[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), hash);
  return absl::StrCat("'sha256-",
                      absl::Base64Escape({reinterpret_cast<const char*>(hash), sizeof(hash)}), "'");
}

// Returns whether the host of a request is an address of this server or "localhost". Any other name
// can belong to a web page that reads this server through its own DNS record (DNS rebinding).
bool IsOwnHost(std::string host, const IpAddress& listen) {
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  const std::optional<IpAddress> address = IpAddress::Parse(host);
  if (!address) return absl::EqualsIgnoreCase(host, "localhost");
  return address->IsLoopback() || *address == listen || listen.IsUnspecified();
}

// Publish is thread-safe. The pages are the same for all HTTP methods.
class FleetServer {
 public:
  explicit FleetServer(const BindAddress& listen)
      : listen_(listen),
        policy_(absl::StrCat("default-src 'none'; connect-src 'self'; img-src data:; style-src ",
                             HashOf(kFleetPage, "style"), "; script-src ",
                             HashOf(kFleetPage, "script"),
                             "; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")),
        thread_([this] { OnWake(); }),
        connections_(thread_.base(), kMaxClients, kPatience),
        point_(thread_.base(), connections_,
               [this](const HttpPoint::Request& request) { return AnswerTo(request); }),
        check_clock_(thread_.base(), [this] { CheckClock(); }) {}
  ~FleetServer() { thread_.Stop(); }

  absl::Status Start() {
    if (absl::Status opened = point_.Open(listen_, Stack::kOne); !opened.ok()) return opened;
    check_clock_.After(kClockInterval);
    thread_.Start();
    return absl::OkStatus();
  }

  void Publish(std::string event) {
    {
      const std::lock_guard lock(mutex_);
      next_ = std::move(event);
    }
    thread_.Wake();
  }

 private:
  void OnWake() {
    {
      const std::lock_guard lock(mutex_);
      latest_ = next_;
    }
    point_.Publish(std::make_shared<const std::string>(absl::StrCat("data: ", latest_, "\n\n")));
  }

  void CheckClock() {
    clock_.Check();
    check_clock_.After(kClockInterval);
  }

  Answer AnswerTo(const HttpPoint::Request& request) const {
    if (!IsOwnHost(request.host, listen_.address)) {
      return {.code = 421,
              .headers = {{"Content-Type", "text/plain; charset=utf-8"}},
              .body = absl::StrCat("The Host header must be localhost, a loopback address or ",
                                   listen_.ToString(), ".\n")};
    }
    const std::string& path = request.path;
    static const std::map<std::string, std::string> types = {{"/", "text/html; charset=utf-8"},
                                                             {"/status.json", "application/json"},
                                                             {"/events", "text/event-stream"}};
    const auto type = types.find(path);
    if (type == types.end()) return NotFoundAnswer();
    Answer answer;
    if (path == "/") answer.body = kFleetPage;
    if (path == "/status.json") answer.body = latest_;
    answer.is_stream = path == "/events";
    answer.headers = {{"Content-Type", type->second},
                      {"Content-Security-Policy", policy_},
                      {"X-Content-Type-Options", "nosniff"},
                      {"Cross-Origin-Resource-Policy", "same-origin"},
                      {"Cache-Control", "no-store"}};
    return answer;
  }

  const BindAddress listen_;
  const std::string policy_;
  std::mutex mutex_;
  std::string next_;  // Guarded by mutex_.
  EventThread thread_;
  // Used only on the server's thread after Start().
  std::string latest_;
  Connections connections_;
  HttpPoint point_;
  ClockWatch clock_;
  Event check_clock_;
};

}  // namespace

ExitCode RunFleetServe(const Options& all, Session& session) {
  const FleetOptions& options = all.fleet;
  SetUpLog(/*verbosity=*/0);
  grpc_init();  // ClockWatch needs gRPC even while no channel exists.
  FleetReader reader(options);
  FleetObserver observer;
  FleetServer server(options.listen);
  bool started = false;
  for (;;) {
    const auto begin = steady_clock::now();
    const absl::StatusOr<fleet::Summary> summary = reader.Read();
    if (summary.ok()) {
      server.Publish(observer.Observe(reader.head(), reader.required(), *summary,
                                      std::chrono::system_clock::now(), steady_clock::now()));
    } else {
      if (!started) return EtcdFailed(summary.status(), session);
      const nlohmann::json event = {{"error", std::string(summary.status().message())}};
      server.Publish(event.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    }
    if (!std::exchange(started, true)) {
      if (absl::Status opened = server.Start(); !opened.ok()) {
        return session.Refuse("--listen: " + std::string(opened.message()));
      }
      if (!options.listen.address.IsLoopback()) {
        session.Warn("the page needs no authentication, so all clients that can reach " +
                     options.listen.ToString() + " can read it");
      }
      session.out << "serving http://" << options.listen.ToString() << "/" << std::endl;
    }
    steady_clock::duration pause = kLeastInterval;
    if (summary.ok()) {
      pause = std::clamp<steady_clock::duration>(kIdleShare * (steady_clock::now() - begin),
                                                 kLeastInterval, kGreatestInterval);
    }
    std::this_thread::sleep_for(pause);
  }
}

}  // namespace svcmap::api
