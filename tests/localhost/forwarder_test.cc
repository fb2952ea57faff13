// Tests of the forwarder with real sockets in a separate network namespace. The endpoints are
// servers on other loopback addresses.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <filesystem>
#include <iterator>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "api/health/bind_address.h"
#include "api/localhost/forwarder.h"
#include "tests/contract/private_netns.h"
#include "tests/support/client.h"
#include "tests/support/echo_server.h"
#include "tests/support/process.h"
#include "tests/support/status_matchers.h"
#include "tests/support/transfer.h"
#include "tests/support/wait.h"

namespace svcmap::api::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::svcmap::testing::Answer;
using ::svcmap::testing::EchoServer;
using ::svcmap::testing::kHangLimit;
using ::svcmap::testing::NetNs;
using ::svcmap::testing::Outcome;
using ::svcmap::testing::RunOk;
using ::svcmap::testing::TcpFlow;
using ::svcmap::testing::WaitUntil;

constexpr uint16_t kNodePort = 30080;
constexpr uint16_t kPodPort = 8080;

proxy::EndpointAddress At(const std::string& ip, uint16_t port = kPodPort) {
  return {*IpAddress::Parse(ip), port};
}

proxy::LocalhostNodePort NodePortTo(std::vector<proxy::EndpointAddress> endpoints,
                                    Family family = Family::kIpv4, uint16_t port = kNodePort) {
  return {.family = family, .port = port, .endpoints = std::move(endpoints)};
}

class LocalhostForwarderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    svcmap::testing::MakePrivateNetNs(netns_);
    if (!netns_) return;
    auto server = EchoServer::Start(*netns_);
    ASSERT_OK(server);
    echo_ = *std::move(server);
  }

  void Start(LocalhostForwarderOptions options = {}) {
    options.retry = milliseconds(50);
    netns_->Run([&] { forwarder_.emplace(options); });
  }
  // Starts an echo server with this name and address.
  proxy::EndpointAddress Pod(const std::string& name, const std::string& ip) {
    EXPECT_OK(echo_->Listen({.ip = ip, .port = kPodPort, .name = name}));
    return At(ip);
  }
  void Update(proxy::LocalhostNodePorts node_ports, const std::string& service = "shop/web") {
    forwarder_->Update({{service, std::move(node_ports)}});
  }
  // Updates the Service and waits until the number of IPv4 listeners is `listeners`.
  void UpdateAndWait(proxy::LocalhostNodePorts node_ports, uint64_t listeners = 1) {
    Update(std::move(node_ports));
    EXPECT_TRUE(WaitUntil([&] { return forwarder_->status().listeners[0] == listeners; }));
  }
  static svcmap::testing::Request To(const std::string& ip = "127.0.0.1",
                                     uint16_t port = kNodePort) {
    return {.destination = ip, .port = port, .timeout = kHangLimit};
  }
  Answer Ask(const std::string& ip = "127.0.0.1", uint16_t port = kNodePort) {
    return svcmap::testing::Ask(*netns_, To(ip, port));
  }

  // Sockets with a time limit of 10 s for each blocking call.
  UniqueFd Client(uint16_t port = kNodePort) {
    return netns_->Run([&] {
      UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      SetTimeouts(fd);
      const SocketAddress to(BindAddress{*IpAddress::Parse("127.0.0.1"), port});
      EXPECT_EQ(connect(fd.get(), to.get(), to.size()), 0) << strerror(errno);
      return fd;
    });
  }
  UniqueFd Listener(const std::string& ip, uint16_t port, int backlog = 16) {
    return netns_->Run([&] {
      UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      SetTimeouts(fd);
      const SocketAddress at(BindAddress{*IpAddress::Parse(ip), port});
      EXPECT_EQ(bind(fd.get(), at.get(), at.size()), 0) << strerror(errno);
      EXPECT_EQ(listen(fd.get(), backlog), 0);
      return fd;
    });
  }
  static UniqueFd AcceptFrom(const UniqueFd& listener) {
    UniqueFd fd(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    EXPECT_TRUE(fd.ok()) << strerror(errno);
    SetTimeouts(fd);
    return fd;
  }
  static void SetTimeouts(const UniqueFd& fd) {
    const timeval limit = {.tv_sec = kHangLimit.count(), .tv_usec = 0};
    setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
  }
  // Reads to the end of the data. Returns "..., errno" after an error.
  static std::string ReadAll(const UniqueFd& fd) {
    std::string text;
    char buffer[65536];
    for (;;) {
      const ssize_t size = recv(fd.get(), buffer, sizeof(buffer), 0);
      if (size == 0) return text;
      if (size < 0) return text + "error " + strerrorname_np(errno);
      text.append(buffer, static_cast<size_t>(size));
    }
  }
  static void Send(const UniqueFd& fd, const std::string& text) {
    EXPECT_EQ(send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(text.size()));
  }
  // Sends until the socket accepts no data for 0.5 s. Returns the number of bytes.
  static size_t SendUntilBlocked(const UniqueFd& fd) {
    fcntl(fd.get(), F_SETFL, O_NONBLOCK);
    const std::string block(65536, 'x');
    size_t sent = 0;
    for (pollfd writable = {fd.get(), POLLOUT, 0}; poll(&writable, 1, 500) == 1;) {
      const ssize_t size = send(fd.get(), block.data(), block.size(), MSG_NOSIGNAL);
      EXPECT_GT(size, 0) << strerror(errno);
      if (size <= 0) break;
      sent += static_cast<size_t>(size);
      EXPECT_LT(sent, size_t{64} << 20) << "the forwarder reads without a limit";
      if (sent >= size_t{64} << 20) break;
    }
    return sent;
  }
  static void Reset(UniqueFd& fd) {
    ResetWhenClosed(fd);
    fd.Close();
  }
  bool SoonWithoutConnections() {
    return WaitUntil([&] { return forwarder_->status().connections == 0; });
  }

  std::optional<NetNs> netns_;
  std::unique_ptr<EchoServer> echo_;
  std::optional<LocalhostForwarder> forwarder_;
};

TEST_F(LocalhostForwarderTest, OnlyTheListenedAddressAndPortAreOpen) {
  Start();
  UpdateAndWait({NodePortTo({Pod("pod", "127.0.0.2")})});
  EXPECT_EQ(Ask().server, "pod");
  EXPECT_EQ(Ask("::1").outcome, Outcome::kRejected);
  EXPECT_EQ(Ask("127.0.0.5").outcome, Outcome::kRejected);
  EXPECT_EQ(Ask("127.0.0.1", kNodePort + 1).outcome, Outcome::kRejected);
}

TEST_F(LocalhostForwarderTest, EachSideCanCloseItsDirectionFirst) {
  Start();
  const UniqueFd listener = Listener("127.0.0.2", 9000);
  UpdateAndWait({NodePortTo({At("127.0.0.2", 9000)})});
  for (const bool client_first : {true, false}) {
    const UniqueFd client = Client();
    const UniqueFd server = AcceptFrom(listener);
    const UniqueFd& first = client_first ? client : server;
    const UniqueFd& second = client_first ? server : client;
    Send(first, "question");
    shutdown(first.get(), SHUT_WR);
    EXPECT_EQ(ReadAll(second), "question");
    Send(second, "answer after the end of the question");
    shutdown(second.get(), SHUT_WR);
    EXPECT_EQ(ReadAll(first), "answer after the end of the question");
    EXPECT_TRUE(SoonWithoutConnections());
  }
}

TEST_F(LocalhostForwarderTest, AResetReachesTheOtherSide) {
  Start();
  const UniqueFd listener = Listener("127.0.0.2", 9000);
  UpdateAndWait({NodePortTo({At("127.0.0.2", 9000)})});
  for (const bool half_closed : {false, true}) {
    for (const bool client_first : {true, false}) {
      UniqueFd client = Client();
      UniqueFd server = AcceptFrom(listener);
      UniqueFd& first = client_first ? client : server;
      UniqueFd& second = client_first ? server : client;
      if (half_closed) {
        shutdown(first.get(), SHUT_WR);
        EXPECT_EQ(ReadAll(second), "");
      }
      Reset(first);
      EXPECT_TRUE(SoonWithoutConnections()) << client_first << half_closed;
      if (half_closed) continue;
      EXPECT_EQ(ReadAll(second), "error ECONNRESET");
    }
  }
}

TEST_F(LocalhostForwarderTest, ASlowReceiverSlowsDownTheSender) {
  Start();
  const UniqueFd listener = Listener("127.0.0.2", 9000);
  UpdateAndWait({NodePortTo({At("127.0.0.2", 9000)})});
  UniqueFd client = Client();
  const UniqueFd server = AcceptFrom(listener);
  const size_t sent = SendUntilBlocked(client);
  shutdown(client.get(), SHUT_WR);
  EXPECT_EQ(ReadAll(server).size(), sent);
}

TEST_F(LocalhostForwarderTest, AResetIsNoticedWhileTheOtherSideDoesNotRead) {
  Start();
  const UniqueFd listener = Listener("127.0.0.2", 9000);
  UpdateAndWait({NodePortTo({At("127.0.0.2", 9000)})});
  for (const bool client_first : {true, false}) {
    UniqueFd client = Client();
    UniqueFd server = AcceptFrom(listener);
    UniqueFd& sender = client_first ? client : server;
    EXPECT_GT(SendUntilBlocked(sender), 0u);
    Reset(sender);
    EXPECT_TRUE(SoonWithoutConnections()) << client_first;
  }
}

TEST_F(LocalhostForwarderTest, WithoutEndpointsTheConnectionIsReset) {
  Start();
  UpdateAndWait({NodePortTo({})});
  EXPECT_EQ(ReadAll(Client()), "error ECONNRESET");
  UpdateAndWait({NodePortTo({Pod("pod", "127.0.0.2")})});
  EXPECT_TRUE(WaitUntil([&] { return Ask().server == "pod"; }));
}

TEST_F(LocalhostForwarderTest, OtherEndpointsReplaceOnesThatRefuse) {
  Start();
  const proxy::EndpointAddress pod = Pod("pod", "127.0.0.4");
  UpdateAndWait({NodePortTo({At("127.0.0.2"), At("127.0.0.3"), pod})});
  for (int i = 0; i < 30; ++i) EXPECT_EQ(Ask().server, "pod");
  UpdateAndWait({NodePortTo({At("127.0.0.2"), At("127.0.0.3"), At("127.0.0.5"), At("127.0.0.6")})});
  EXPECT_TRUE(WaitUntil([&] { return Ask().server.empty(); }));
  EXPECT_EQ(ReadAll(Client()), "error ECONNRESET");
  EXPECT_TRUE(SoonWithoutConnections());
}

TEST_F(LocalhostForwarderTest, AnotherEndpointReplacesOneThatDoesNotAnswer) {
  Start({.connect_timeout = milliseconds(200)});
  // The kernel drops further SYN packets while the queue of the listener is full.
  const UniqueFd full = Listener("127.0.0.2", kPodPort, /*backlog=*/0);
  const UniqueFd waiting = netns_->Run([&] {
    UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const SocketAddress to(BindAddress{*IpAddress::Parse("127.0.0.2"), kPodPort});
    EXPECT_EQ(connect(fd.get(), to.get(), to.size()), 0);
    return fd;
  });
  UpdateAndWait({NodePortTo({At("127.0.0.2"), Pod("pod", "127.0.0.4")})});
  for (int i = 0; i < 6; ++i) EXPECT_EQ(Ask().server, "pod");
}

TEST_F(LocalhostForwarderTest, ARemovedNodePortIsClosedAndItsConnectionsStay) {
  Start();
  const proxy::EndpointAddress pod = Pod("pod", "127.0.0.2");
  UpdateAndWait({NodePortTo({pod})});
  ASSERT_OK_AND_ASSIGN(TcpFlow flow, TcpFlow::Open(*netns_, To()));
  UpdateAndWait({}, /*listeners=*/0);
  EXPECT_EQ(Ask().outcome, Outcome::kRejected);
  EXPECT_OK(flow.Exchange(100'000));
  UpdateAndWait({NodePortTo({pod}, Family::kIpv4, kNodePort + 1)});
  EXPECT_EQ(Ask("127.0.0.1", kNodePort + 1).server, "pod");
  EXPECT_OK(flow.Exchange(100'000));
}

TEST_F(LocalhostForwarderTest, ANodePortCanMoveToAnotherService) {
  Start();
  const proxy::EndpointAddress a = Pod("a", "127.0.0.2");
  const proxy::EndpointAddress b = Pod("b", "127.0.0.3");
  UpdateAndWait({NodePortTo({a})});
  forwarder_->Update({{"shop/new", {NodePortTo({b})}}, {"shop/web", {}}});
  EXPECT_TRUE(WaitUntil([&] { return Ask().server == "b"; }));
  forwarder_->Update({{"shop/new", {}}, {"shop/web", {NodePortTo({a})}}});
  EXPECT_TRUE(WaitUntil([&] { return Ask().server == "a"; }));
  forwarder_->Update({{"shop/new", {}}});
  EXPECT_EQ(Ask().server, "a");
  EXPECT_EQ(forwarder_->status().listeners[0], 1u);
  EXPECT_EQ(forwarder_->status().listener_failures[0], 0u);
}

TEST_F(LocalhostForwarderTest, S113_APortInUseIsCountedOnceAndRetried) {
  Start();
  std::optional<UniqueFd> other = Listener("0.0.0.0", kNodePort);
  std::optional<UniqueFd> short_lived = Listener("0.0.0.0", kNodePort + 2);
  const proxy::EndpointAddress pod = Pod("pod", "127.0.0.2");
  UpdateAndWait({NodePortTo({pod}), NodePortTo({pod}, Family::kIpv4, kNodePort + 1),
                 NodePortTo({pod}, Family::kIpv4, kNodePort + 2)});
  EXPECT_EQ(Ask("127.0.0.1", kNodePort + 1).server, "pod");
  // A retry includes all ports.
  short_lived.reset();
  EXPECT_TRUE(WaitUntil([&] { return forwarder_->status().listeners[0] == 2; }));
  EXPECT_EQ(Ask("127.0.0.1", kNodePort + 2).server, "pod");
  EXPECT_EQ(forwarder_->status().listener_failures[0], 2u) << "each port was counted once";
  other.reset();
  EXPECT_TRUE(WaitUntil([&] { return forwarder_->status().listeners[0] == 3; }));
  EXPECT_EQ(Ask().server, "pod");
  EXPECT_EQ(forwarder_->status().listener_failures[0], 2u);
}

TEST_F(LocalhostForwarderTest, ConnectionsAboveTheLimitAreReset) {
  Start({.max_connections = 2});
  UpdateAndWait({NodePortTo({Pod("pod", "127.0.0.2")})});
  ASSERT_OK_AND_ASSIGN(TcpFlow first, TcpFlow::Open(*netns_, To()));
  {
    ASSERT_OK_AND_ASSIGN(TcpFlow second, TcpFlow::Open(*netns_, To()));
    EXPECT_EQ(ReadAll(Client()), "error ECONNRESET");
    EXPECT_EQ(forwarder_->status().connections, 2u);
    EXPECT_EQ(forwarder_->status().rejected_connections, 1u);
    EXPECT_OK(first.Exchange(1000));
    EXPECT_OK(second.Exchange(1000));
  }
  EXPECT_TRUE(WaitUntil([&] { return forwarder_->status().connections == 1; }));
  EXPECT_EQ(Ask().server, "pod");
}

TEST_F(LocalhostForwarderTest, ListenersAboveTheLimitOpenWhenOthersClose) {
  Start({.max_listeners = 2});
  const proxy::EndpointAddress pod = Pod("pod", "127.0.0.2");
  const auto port = [&](int n) {
    return NodePortTo({pod}, Family::kIpv4, static_cast<uint16_t>(kNodePort + n));
  };
  UpdateAndWait({port(0), port(1), port(2)}, /*listeners=*/2);
  EXPECT_TRUE(WaitUntil([&] { return forwarder_->status().listener_failures[0] == 1; }));
  EXPECT_EQ(Ask("127.0.0.1", kNodePort + 2).outcome, Outcome::kRejected);
  Update({port(1), port(2)});
  EXPECT_TRUE(WaitUntil([&] { return Ask("127.0.0.1", kNodePort + 2).server == "pod"; }));
}

size_t OpenDescriptors() {
  using Iterator = std::filesystem::directory_iterator;
  return static_cast<size_t>(std::distance(Iterator("/proc/self/fd"), Iterator()));
}

TEST_F(LocalhostForwarderTest, ManyConnectionsLeaveNothingBehind) {
  Start();
  UpdateAndWait({NodePortTo({Pod("pod", "127.0.0.2"), At("127.0.0.3")})});
  EXPECT_EQ(Ask().server, "pod");
  EXPECT_TRUE(SoonWithoutConnections());
  const size_t descriptors = OpenDescriptors();
  const std::vector<svcmap::testing::Request> requests(500, To());
  for (const Answer& answer : svcmap::testing::AskAll(*netns_, requests, /*parallel=*/8)) {
    EXPECT_EQ(answer.server, "pod");
  }
  EXPECT_TRUE(SoonWithoutConnections());
  EXPECT_TRUE(WaitUntil([&] { return OpenDescriptors() <= descriptors; }));
  EXPECT_EQ(forwarder_->status().rejected_connections, 0u);
}

// With the sysctl route_localnet, the kernel accepts packets to 127.0.0.1 from other hosts.
TEST_F(LocalhostForwarderTest, S113_OtherHostsCannotConnectEvenWithRouteLocalnet) {
  ASSERT_OK_AND_ASSIGN(const NetNs other, NetNs::Create());
  const auto ip = [](const NetNs& netns, std::vector<std::string> argv) {
    argv.insert(argv.begin(), "ip");
    EXPECT_OK(RunOk({.argv = std::move(argv), .netns = &netns}).status());
  };
  ip(*netns_, {"link", "add", "v0", "type", "veth", "peer", "name", "v1", "netns", other.path()});
  const std::tuple<const NetNs*, const char*, const char*> links[] = {
      {&*netns_, "v0", "192.0.2.1/24"}, {&other, "v1", "192.0.2.2/24"}};
  for (const auto& [netns, device, address] : links) {
    ip(*netns, {"address", "add", address, "dev", device});
    ip(*netns, {"link", "set", device, "up"});
    EXPECT_OK(netns->WriteSysctl("net/ipv4/conf/all/route_localnet", "1"));
    EXPECT_OK(netns->WriteSysctl("net/ipv4/conf/all/rp_filter", "0"));
    EXPECT_OK(netns->WriteSysctl(std::string("net/ipv4/conf/") + device + "/rp_filter", "0"));
  }
  // The other host routes 127.0.0.1 to this host.
  ip(other, {"address", "del", "127.0.0.1/8", "dev", "lo"});
  ip(other, {"route", "add", "127.0.0.1", "via", "192.0.2.1"});
  Start();
  UpdateAndWait({NodePortTo({Pod("pod", "127.0.0.2")})});
  EXPECT_OK(echo_->Listen({.ip = "127.0.0.1", .port = 9000, .name = "exposed"}));
  const auto from_other = [&](uint16_t port, milliseconds timeout) {
    return svcmap::testing::Ask(
        other,
        {.destination = "127.0.0.1", .port = port, .source = "192.0.2.2", .timeout = timeout});
  };
  EXPECT_EQ(from_other(9000, kHangLimit).server, "exposed") << "the packets reach this host";
  EXPECT_EQ(from_other(kNodePort, seconds(1)).server, "");
  EXPECT_EQ(Ask().server, "pod");
}

}  // namespace
}  // namespace svcmap::api::test
