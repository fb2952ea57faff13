#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "tests/hostile/hostile_world.h"
#include "tests/support/wait.h"

namespace svcmap::hostile {

namespace {

using std::chrono::milliseconds;
using Clock = Wire::Clock;
using svcmap::testing::AService;
using svcmap::testing::ASlice;
using svcmap::testing::Upsert;

constexpr uint32_t kSource = 0x7f000100;       // Base of the peers' source addresses: 127.0.1.0.
constexpr uint32_t kManySources = 0x7f020000;  // First address of ConnectFrom: 127.2.0.0.
constexpr uint32_t kReader = 2000;
constexpr uint32_t kWriter = 3000;
constexpr uint32_t kPeers = 100;
constexpr double kMaxGrowth = 2;
constexpr double kMaxLeftMib = 20;
constexpr double kMaxP99 = 50;

template <typename T>
T OrDie(absl::StatusOr<T> value) {
  if (!value.ok()) {
    std::fprintf(stderr, "%s\n", std::string(value.status().message()).c_str());
    std::abort();
  }
  return *std::move(value);
}

double RssOf(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("VmRSS:", 0) == 0) return std::strtod(line.c_str() + 6, nullptr) / 1024;
  }
  return 0;
}

// A controller that changes an endpoint every 5 ms until the controller is stopped.
class Controller {
 public:
  explicit Controller(testing::Agent& agent) : stream_(agent.Push("legitimate")) {
    if (!stream_.ok()) {
      problem_ = std::string(stream_.status().message());
      return;
    }
    thread_ = std::thread([this] { Run(); });
  }
  // Waits until the agent has processed some batches, so that its memory usage is steady.
  void AwaitBatches() const {
    EXPECT_TRUE(testing::WaitUntil([this] { return batches_ >= 20; }));
  }
  void Stop(Figures& figures) {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
    figures.controller_problem = problem_;
    figures.batches = times_.size();
    if (times_.empty()) return;
    std::sort(times_.begin(), times_.end());
    figures.p50 = times_[times_.size() / 2];
    figures.p99 = times_[times_.size() * 99 / 100];
    figures.max = times_.back();
  }

 private:
  void Run() {
    const v1::Object service = AService("shop/web").ClusterIp("10.96.0.10").Port("http", 80);
    for (int i = 0; !stop_; ++i) {
      const v1::Object slice =
          ASlice("shop/web").Port("http", 8080).Endpoint("10.1.0." + std::to_string(1 + i % 200));
      const auto sent = Clock::now();
      const absl::StatusOr<v1::Ack> ack = (*stream_)->Batch({Upsert(service), Upsert(slice)});
      if (!ack.ok()) {
        problem_ = std::string(ack.status().message());
        return;
      }
      times_.push_back(std::chrono::duration<double, std::milli>(Clock::now() - sent).count());
      ++batches_;
      std::this_thread::sleep_for(milliseconds(5));
    }
  }

  absl::StatusOr<std::unique_ptr<testing::PushStream>> stream_;
  std::atomic<bool> stop_ = false;
  std::atomic<int> batches_ = 0;
  std::vector<double> times_;
  std::string problem_;
  std::thread thread_;
};

}  // namespace

std::string NameOf(Peer peer) {
  constexpr const char* kNames[] = {"Anonymous", "UnlistedCertificate", "ReaderUid", "WriterUid",
                                    "Root"};
  return kNames[static_cast<size_t>(peer)];
}

milliseconds AttackTime() {
  const char* text = std::getenv("SVCMAP_HOSTILE_SECONDS");
  int seconds = 1;
  if (text != nullptr && !absl::SimpleAtoi(text, &seconds)) std::abort();
  return std::chrono::seconds(seconds);
}

bool ChecksLatency() { return std::getenv("SVCMAP_HOSTILE_SECONDS") != nullptr; }

World::World(bool tls)
    : netns_(OrDie(testing::NetNs::Create())), folder_(OrDie(testing::TemporaryFolder::Make())) {
  // OpenSSL may write to connections that svcmapd has closed, which would raise SIGPIPE.
  signal(SIGPIPE, SIG_IGN);
  chmod(folder_.path().c_str(), 0755);
  port_ = netns_.Run([] { return testing::FreeTcpPort(); });
  std::vector<std::string> flags = {"--listen", "unix://" + folder_.path() + "/shared.sock",
                                    "--listen", absl::StrCat("tcp://127.0.0.1:", port_)};
  for (uint32_t i = 0; i <= kPeers; ++i) {
    flags.insert(flags.end(), {"--allow-read-uid", std::to_string(kReader + i), "--allow-write-uid",
                               std::to_string(kWriter + i)});
  }
  if (tls) {
    const testing::KeyPair agent = ca_.Issue("agent", "IP:127.0.0.1");
    for (const auto& [name, text] :
         {std::pair("ca", ca_.certificate()), std::pair("cert", agent.certificate),
          std::pair("key", agent.key)}) {
      std::ofstream(folder_.path() + "/" + name) << text;
    }
    flags.insert(flags.end(), {"--tls-cert", folder_.path() + "/cert", "--tls-key",
                               folder_.path() + "/key", "--tls-client-ca", folder_.path() + "/ca",
                               "--allow-write", "spiffe://test/writer"});
  } else {
    flags.push_back("--insecure");
  }
  agent_ = OrDie(testing::Agent::Start(netns_, flags));
  NextPeer();
}

void World::NextPeer() {
  ASSERT_LT(++peer_, kPeers);
  client_ = ca_.Issue("s", absl::StrCat("URI:spiffe://test/stranger-", peer_));
}

std::unique_ptr<Wire> World::Connect(Peer peer) const {
  switch (peer) {
    case Peer::kAnonymous:
      return netns_.Run([this] { return Wire::ConnectTcp(port_, kSource + peer_); });
    case Peer::kUnlisted:
      return netns_.Run([this] { return Wire::ConnectTls(port_, kSource + peer_, client_); });
    case Peer::kReaderUid:
      return Wire::ConnectUnix(folder_.path() + "/shared.sock", kReader + peer_);
    case Peer::kWriterUid:
      return Wire::ConnectUnix(folder_.path() + "/shared.sock", kWriter + peer_);
    case Peer::kRoot:
      return Wire::ConnectUnix(folder_.path() + "/shared.sock", 0);
  }
  return nullptr;
}

std::unique_ptr<Wire> World::ConnectFrom(uint32_t number) const {
  return netns_.Run([&] { return Wire::ConnectTcp(port_, kManySources + number); });
}

std::unique_ptr<Wire> World::ConnectToTlsPort() const {
  return netns_.Run([this] { return Wire::ConnectTcp(port_, kSource + peer_); });
}

double World::Rss() const { return RssOf(agent_->pid()); }

Figures Measure(World& world, const std::function<size_t(Clock::time_point until)>& attack) {
  Figures figures;
  world.NextPeer();
  Controller controller(world.agent());
  controller.AwaitBatches();
  figures.start = figures.peak = world.Rss();
  std::atomic<bool> stop = false;
  std::thread sampler([&] {
    while (!stop) {
      figures.peak = std::max(figures.peak, world.Rss());
      std::this_thread::sleep_for(milliseconds(20));
    }
  });
  figures.connections = attack(Clock::now() + AttackTime());
  controller.Stop(figures);
  stop = true;
  sampler.join();
  testing::WaitUntil([&] {
    figures.after = world.Rss();
    return figures.after <= figures.start + kMaxLeftMib;
  });
  return figures;
}

void Check(const std::string& name, const Figures& figures) {
  std::printf("| %s | %.0f | %.0f | %.0f | %.2f | %.2f | %.1f | %zu | %zu |\n", name.c_str(),
              figures.start, figures.peak, figures.after, figures.p50, figures.p99, figures.max,
              figures.batches, figures.connections);
  std::fflush(stdout);
  EXPECT_EQ(figures.controller_problem, "");
  EXPECT_GT(figures.batches, 0u);
  EXPECT_LT(figures.peak, kMaxGrowth * figures.start) << "MiB";
  EXPECT_LE(figures.after, figures.start + kMaxLeftMib) << "MiB";
  if (ChecksLatency()) {
    EXPECT_LT(figures.p99, kMaxP99) << "ms";
  }
}

namespace {

constexpr unsigned char kHttp2[] = {2, 'h', '2'};  // ALPN protocol list.

void SetNonBlocking(int fd) { fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK); }

}  // namespace

std::unique_ptr<Wire> Wire::ConnectUnix(const std::string& path, uint32_t uid) {
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
  // Use the system call, because it changes the uid of only this thread.
  if (uid != 0) syscall(SYS_setresuid, -1, uid, -1);
  const int connected =
      connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  if (uid != 0) syscall(SYS_setresuid, -1, 0, -1);
  if (connected != 0) return nullptr;
  SetNonBlocking(fd.get());
  return std::unique_ptr<Wire>(new Wire(std::move(fd)));
}

std::unique_ptr<Wire> Wire::ConnectTcp(uint16_t port, uint32_t source) {
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  // Close with a reset to avoid TIME-WAIT, because thousands of consecutive connections reuse their
  // ports.
  const linger reset = {.l_onoff = 1, .l_linger = 0};
  setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
  sockaddr_in from = {};
  from.sin_family = AF_INET;
  from.sin_addr.s_addr = htonl(source);
  const auto* from_address = reinterpret_cast<const sockaddr*>(&from);
  if (bind(fd.get(), from_address, sizeof(from)) != 0 ||
      connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return nullptr;
  }
  const int on = 1;
  setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  SetNonBlocking(fd.get());
  return std::unique_ptr<Wire>(new Wire(std::move(fd)));
}

std::unique_ptr<Wire> Wire::ConnectTls(uint16_t port, uint32_t source,
                                       const testing::KeyPair& client) {
  std::unique_ptr<Wire> wire = ConnectTcp(port, source);
  if (!wire) return nullptr;
  wire->context_ = SSL_CTX_new(TLS_client_method());
  if (!client.certificate.empty()) testing::UsePair(wire->context_, client);
  SSL_CTX_set_mode(wire->context_,
                   SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_alpn_protos(wire->context_, kHttp2, sizeof(kHttp2));
  wire->ssl_ = SSL_new(wire->context_);
  SSL_set_fd(wire->ssl_, wire->fd_.get());
  const auto deadline = Clock::now() + testing::kHangLimit;
  for (;;) {
    ERR_clear_error();
    const int result = SSL_connect(wire->ssl_);
    if (result == 1) return wire;
    const int error = SSL_get_error(wire->ssl_, result);
    if (error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE) return nullptr;
    if (Clock::now() > deadline) return nullptr;
    wire->Poll(error == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT, deadline);
  }
}

Wire::~Wire() {
  SSL_free(ssl_);
  SSL_CTX_free(context_);
}

void Wire::Poll(short events, Clock::time_point deadline) const {
  pollfd polled = {fd_.get(), events, 0};
  const auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
  poll(&polled, 1, static_cast<int>(std::clamp<int64_t>(left, 0, 1000)));
}

bool Wire::Send(std::string_view bytes, Clock::time_point deadline) {
  while (!bytes.empty() && !closed_) {
    ssize_t sent = 0;
    bool full = false;
    if (ssl_ != nullptr) {
      ERR_clear_error();
      sent = SSL_write(ssl_, bytes.data(), static_cast<int>(bytes.size()));
      const int error = sent > 0 ? SSL_ERROR_NONE : SSL_get_error(ssl_, static_cast<int>(sent));
      full = error == SSL_ERROR_WANT_WRITE || error == SSL_ERROR_WANT_READ;
    } else {
      sent = send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      full = sent < 0 && (errno == EAGAIN || errno == EINTR);
    }
    if (sent > 0) {
      bytes.remove_prefix(static_cast<size_t>(sent));
    } else if (!full) {
      closed_ = true;
    } else {
      if (Clock::now() >= deadline) return false;
      Poll(POLLOUT, deadline);
    }
  }
  return !closed_;
}

std::string Wire::Receive() {
  std::string all;
  char bytes[16384];
  while (!closed_) {
    ssize_t got = 0;
    bool empty = false;
    if (ssl_ != nullptr) {
      ERR_clear_error();
      got = SSL_read(ssl_, bytes, sizeof(bytes));
      const int error = got > 0 ? SSL_ERROR_NONE : SSL_get_error(ssl_, static_cast<int>(got));
      empty = error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE;
    } else {
      got = recv(fd_.get(), bytes, sizeof(bytes), 0);
      empty = got < 0 && (errno == EAGAIN || errno == EINTR);
    }
    if (got <= 0) {
      closed_ = !empty;
      break;
    }
    all.append(bytes, static_cast<size_t>(got));
  }
  return all;
}

int Wire::Unread() const {
  int bytes = 0;
  ioctl(fd_.get(), FIONREAD, &bytes);
  return bytes;
}

bool Wire::AwaitClose(Clock::time_point deadline) {
  for (;;) {
    Receive();
    if (closed_) return true;
    if (Clock::now() >= deadline) return false;
    Poll(POLLIN, deadline);
  }
}

}  // namespace svcmap::hostile
