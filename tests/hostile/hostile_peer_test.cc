// Attacks by peers without write access, each in parallel with a legitimate controller.
//
// Prints a row for each attack. The first columns are svcmapd's memory in MiB before the attack,
// the maximum during the attack, and the memory after the attack. The next columns are the p50, p99
// and maximum time in milliseconds from a controller's batch to the Ack. The last columns are the
// number of batches and the number of the attacker's connections.
#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <optional>
#include <thread>

#include "absl/strings/str_cat.h"
#include "tests/hostile/frames.h"
#include "tests/hostile/hostile_world.h"
#include "tests/support/wait.h"

namespace svcmap::hostile {
namespace {

using ::svcmap::testing::WaitUntil;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Clock = Wire::Clock;

constexpr char kReflectionMethod[] =
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";

struct Case {
  Peer peer;
  const Attack* attack;
};

// Returns all attacks by an anonymous peer, and some attacks by other peers. The limits are the
// same for all peers, so the short test has one or two attacks by each other peer.
std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const Attack& attack : AllAttacks()) cases.push_back({Peer::kAnonymous, &attack});
  std::vector<std::string> names = {"RapidReset", "NeverOpen", "CompressedMessages"};
  if (ChecksLatency()) {
    names.insert(names.end(), {"StreamsWithoutReset", "EndlessContinuation", "SettingsFlood",
                               "UnfinishedMessagesInBytes", "CallsWithoutWindow"});
  }
  for (const Peer peer : {Peer::kUnlisted, Peer::kReaderUid, Peer::kWriterUid}) {
    for (const Attack& attack : AllAttacks()) {
      const bool selected = std::find(names.begin(), names.end(), attack.name) != names.end();
      if (selected) cases.push_back({peer, &attack});
    }
  }
  return cases;
}

// Returns an agent for `peer`. If `fresh` is true, previous attacks have not used up the limit for
// new connections of all readers together.
World& WorldOf(Peer peer, bool fresh = false) {
  static std::unique_ptr<World> world;
  static bool has_tls = false;
  const bool tls = peer == Peer::kUnlisted;
  // If svcmapd uses more memory than this value in MiB, the next attack uses a new agent. With the
  // same agent, the memory used by an expensive attack would hide the cost of the next attack.
  constexpr double kMostMib = 45;
  if (world &&
      (fresh || has_tls != tls || world->Rss() > kMostMib || !world->agent().GetStatus().ok())) {
    world.reset();
  }
  if (!world) world = std::make_unique<World>(tls);
  has_tls = tls;
  return *world;
}

class AttackTest : public ::testing::TestWithParam<Case> {};

// Opens attacking connections one after the other until the time is over.
size_t Repeat(const World& world, const Case& c, Clock::time_point until) {
  size_t connections = 0;
  while (Clock::now() < until) {
    const std::unique_ptr<Wire> wire = world.Connect(c.peer);
    ++connections;
    if (wire) c.attack->run(*wire, until);
  }
  return connections;
}

// Waits until svcmapd answers. An attacker with the uid of this process shares the limit for new
// connections with this process. The limit refills within seconds.
bool AnswersSoon(World& world) {
  return WaitUntil([&] { return world.agent().GetStatus().ok(); });
}

// Waits until svcmapd has processed all frames that were sent on the connection.
void AwaitPing(Wire& wire) {
  const std::string payload = "awaiting";
  ASSERT_TRUE(wire.Send(Frame(kPing, 0, 0, payload), Clock::now() + testing::kHangLimit));
  std::string received;
  EXPECT_TRUE(WaitUntil([&] {
    received += wire.Receive();
    return received.find(Frame(kPing, kAck, 0, payload)) != std::string::npos;
  }));
}

TEST_P(AttackTest, CostsAtMostTheMemoryThatTheAgentHasAnyway) {
  World& world = WorldOf(GetParam().peer);
  Check(NameOf(GetParam().peer) + "/" + GetParam().attack->name,
        Measure(world, [&](Clock::time_point until) { return Repeat(world, GetParam(), until); }));
  EXPECT_TRUE(AnswersSoon(world)) << "svcmapd does not answer";
}

INSTANTIATE_TEST_SUITE_P(Hostile, AttackTest, ::testing::ValuesIn(Cases()), [](const auto& info) {
  return NameOf(info.param.peer) + info.param.attack->name;
});

// Opens connections and keeps each connection open until svcmapd closes it or the time is over.
size_t ConnectAndHold(int attempts, Clock::time_point until,
                      const std::function<std::unique_ptr<Wire>()>& connect) {
  std::vector<std::unique_ptr<Wire>> wires;
  for (int i = 0; i < attempts; ++i) {
    std::unique_ptr<Wire> wire = connect();
    if (wire) wires.push_back(std::move(wire));
  }
  while (Clock::now() < until) {
    for (const auto& wire : wires) wire->Receive();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return static_cast<size_t>(attempts);
}

// Number of connections.
int Attempts() { return ChecksLatency() ? 5000 : 1000; }

class ConnectionsTest : public ::testing::TestWithParam<Peer> {};

TEST_P(ConnectionsTest, ThousandsLeaveAtMost20Mib) {
  World& world = WorldOf(GetParam());
  const Figures figures = Measure(world, [&](Clock::time_point until) {
    return ConnectAndHold(Attempts(), until, [&] {
      std::unique_ptr<Wire> wire = world.Connect(GetParam());
      if (wire) wire->Send(Greeting(), until);
      return wire;
    });
  });
  Check(NameOf(GetParam()) + "/ManyConnections", figures);
}

INSTANTIATE_TEST_SUITE_P(Hostile, ConnectionsTest,
                         ::testing::Values(Peer::kAnonymous, Peer::kUnlisted, Peer::kReaderUid,
                                           Peer::kWriterUid),
                         [](const auto& info) { return NameOf(info.param); });

// Five peers open as many connections as svcmapd accepts, send `bytes` on each of them, and read
// until `until`. Returns the number of attempts.
size_t HoldAllConnections(World& world, Peer role, const std::string& bytes,
                          Clock::time_point until) {
  std::vector<std::unique_ptr<Wire>> wires;
  size_t connections = 0;
  for (int peer = 0; peer < 5; ++peer, world.NextPeer()) {
    for (int i = 0; i < 32; ++i, ++connections) {
      std::unique_ptr<Wire> wire = world.Connect(role);
      if (!wire) continue;
      wire->Send(bytes, Clock::now() + std::chrono::milliseconds(100));
      wires.push_back(std::move(wire));
    }
  }
  while (Clock::now() < until) {
    for (const auto& wire : wires) wire->Receive();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return connections;
}

// Tests in which several peers open as many connections as svcmapd accepts, each with as many
// calls, header fields and bytes of unfinished messages as svcmapd accepts.
class HoldTest : public ::testing::TestWithParam<Peer> {};

TEST_P(HoldTest, EverythingThatIsAllowedCostsLittle) {
  World& world = WorldOf(GetParam(), /*fresh=*/true);
  std::string bytes = Greeting();
  for (uint32_t n = 0; n < 10; ++n) {
    bytes +=
        Frame(kHeaders, kEndHeaders, 2 * n + 1,
              CallFields("/svcmap.v1.Control/GetStatus") + Field("x", std::string(3000, 'a'))) +
        Frame(kData, 0, 2 * n + 1, MessagePrefix(30'000)) +
        Frame(kData, 0, 2 * n + 1, std::string(6'000, 'a'));
  }
  const Figures figures = Measure(world, [&](Clock::time_point until) {
    return HoldAllConnections(world, GetParam(), bytes, until);
  });
  Check(NameOf(GetParam()) + "/EverythingAllowed", figures);
}

INSTANTIATE_TEST_SUITE_P(Hostile, HoldTest,
                         ::testing::Values(Peer::kAnonymous, Peer::kUnlisted, Peer::kReaderUid),
                         [](const auto& info) { return NameOf(info.param); });

// Five peers open as many connections as svcmapd accepts, and send the bytes of unfinished messages
// in frames of 5 bytes. gRPC needs about 50 bytes of memory for each frame.
class FragmentsTest : public ::testing::TestWithParam<Peer> {};

TEST_P(FragmentsTest, OfUnfinishedMessagesCostLittle) {
  World& world = WorldOf(GetParam(), /*fresh=*/true);
  std::string bytes = Greeting() + Call(1, "/svcmap.v1.Control/GetStatus") +
                      Frame(kData, 0, 1, MessagePrefix(32'000));
  for (int n = 0; n < 6'000; ++n) bytes += Frame(kData, 0, 1, "abcde");
  const Figures figures = Measure(world, [&](Clock::time_point until) {
    return HoldAllConnections(world, GetParam(), bytes, until);
  });
  Check(NameOf(GetParam()) + "/FragmentedMessages", figures);
  constexpr double kMaxGrowthMib = 10;
  EXPECT_LT(figures.peak, figures.start + kMaxGrowthMib) << "MiB";
}

INSTANTIATE_TEST_SUITE_P(Hostile, FragmentsTest,
                         ::testing::Values(Peer::kAnonymous, Peer::kReaderUid),
                         [](const auto& info) { return NameOf(info.param); });

// Returns true if svcmapd passes the connection to gRPC, which sends SETTINGS.
bool IsAccepted(Wire& wire, std::chrono::milliseconds limit = testing::kHangLimit) {
  wire.Send(Greeting(), Clock::now() + testing::kHangLimit);
  bool accepted = false;
  const auto has_decided = [&] {
    accepted = !wire.Receive().empty();
    return accepted || wire.closed();
  };
  WaitUntil(has_decided, limit);
  return accepted;
}

// Clients with many different IP addresses open connections, send calls with resets, and close the
// connections. If `GetParam()` calls are allowed, each connection and each address stays below its
// own limit. Only the limit for all connections together bounds the memory.
class ResetsTest : public ::testing::TestWithParam<uint32_t> {};

TEST_P(ResetsTest, OfClosedConnectionsFromManyAddressesCostLittle) {
  constexpr int kThreads = 8;
  constexpr uint32_t kAddresses = 5000;
  World& world = WorldOf(Peer::kAnonymous, /*fresh=*/true);
  std::string calls;
  for (uint32_t n = 0; n < GetParam(); ++n) {
    calls += Call(2 * n + 1, "/svcmap.v1.Control/GetStatus") +
             Frame(kRstStream, 0, 2 * n + 1, Number32(8));
  }
  const Figures figures = Measure(world, [&](Clock::time_point until) {
    std::atomic<uint32_t> connections = 0;
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&] {
        while (Clock::now() < until) {
          const std::unique_ptr<Wire> wire = world.ConnectFrom(connections++ % kAddresses);
          if (wire &&
              IsAccepted(*wire, std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now())))
            wire->Send(calls, until);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    return size_t{connections};
  });
  Check("Anonymous/ManyAddresses/" + std::to_string(GetParam()), figures);
  EXPECT_TRUE(AnswersSoon(world)) << "svcmapd does not answer";
}

// Readers may send a burst of 20 resets, and writers a burst of 200 resets.
INSTANTIATE_TEST_SUITE_P(Hostile, ResetsTest, ::testing::Values(19, 190));

TEST(HandshakeTest, HalfOpenHandshakesCostLittle) {
  World& world = WorldOf(Peer::kUnlisted);
  const Figures figures = Measure(world, [&](Clock::time_point until) {
    return ConnectAndHold(Attempts(), until, [&] {
      std::unique_ptr<Wire> wire = world.ConnectToTlsPort();
      // Send the beginning of a TLS ClientHello of 512 bytes.
      if (wire) wire->Send(std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11), until);
      return wire;
    });
  });
  Check("UnlistedCertificate/HalfOpenHandshakes", figures);
}

// A user with write access opens streams but never sends an Open message.
TEST(NeverOpenTest, ControllerOpensAStreamMeanwhile) {
  World& world = WorldOf(Peer::kWriterUid);
  const auto until = Clock::now() + std::chrono::seconds(20);
  std::vector<std::unique_ptr<Wire>> wires;
  for (int i = 0; i < 8; ++i) {
    wires.push_back(world.Connect(Peer::kWriterUid));
    ASSERT_TRUE(wires.back());
    std::string bytes = Greeting();
    for (uint32_t n = 0; n < 16; ++n) bytes += Call(2 * n + 1, "/svcmap.v1.Control/Push");
    ASSERT_TRUE(wires.back()->Send(bytes, until));
    AwaitPing(*wires.back());
  }
  for (int i = 0; i < 10; ++i) {
    const auto stream = world.agent().Push("legitimate");
    ASSERT_TRUE(stream.ok()) << stream.status();
  }
}

// Returns true if the response of the call on stream 1 is complete.
bool HasEnded(const std::string& received) {
  for (size_t at = 0; at + 9 <= received.size();) {
    const auto byte = [&](size_t i) { return static_cast<uint8_t>(received[at + i]); };
    if (byte(3) == kHeaders && (byte(4) & kEndStream) != 0 && byte(8) == 1) return true;
    at += 9 + (byte(0) << 16 | byte(1) << 8 | byte(2));
  }
  return false;
}

// Calls `method` on a new connection. Returns the time in milliseconds, or nullopt if svcmapd does
// not respond.
std::optional<double> TimeOfCall(const World& world, Peer peer, const std::string& method) {
  const auto start = Clock::now();
  const std::unique_ptr<Wire> wire = world.Connect(peer);
  if (!wire) return std::nullopt;
  wire->Send(Greeting() + Call(1, "/svcmap.v1.Control/" + method) +
                 Frame(kData, kEndStream, 1, MessagePrefix(0)),
             start + testing::kHangLimit);
  std::string received;
  WaitUntil([&] {
    received += wire->Receive();
    return HasEnded(received) || wire->closed();
  });
  if (!HasEnded(received)) return std::nullopt;
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// Sends a call with these header fields and an empty message. Returns all received bytes up to the
// end of the call.
std::string ResponseTo(const World& world, Peer peer, const std::string& fields) {
  const std::unique_ptr<Wire> wire = world.Connect(peer);
  if (!wire) return "";
  wire->Send(Greeting() + Frame(kHeaders, kEndHeaders, 1, fields) +
                 Frame(kData, kEndStream, 1, MessagePrefix(0)),
             Clock::now() + testing::kHangLimit);
  std::string received;
  WaitUntil([&] {
    received += wire->Receive();
    return HasEnded(received) || wire->closed();
  });
  return received;
}

// Header fields of calls that other gRPC servers have accepted although a field is missing, or
// although the path is not canonical.
class MalformedCallTest : public ::testing::TestWithParam<Peer> {};

TEST_P(MalformedCallTest, FailsAndOtherCallsSucceed) {
  World& world = WorldOf(GetParam(), /*fresh=*/true);
  const std::string path = "/svcmap.v1.Control/GetStatus";
  const std::string others = Field("content-type", "application/grpc") + Field("te", "trailers");
  const std::string authority = Field(":authority", "x");
  const std::string post = "\x83\x86";
  constexpr char kSuccess[] =
      "grpc-status\x01"
      "0";
  ASSERT_THAT(ResponseTo(world, GetParam(), CallFields(path)), HasSubstr(kSuccess));
  const std::pair<std::string, std::string> cases[] = {
      {post + Field(":path", path) + others, "Missing :authority header"},
      {post + authority + others, "Missing :path header"},
      {"\x86" + Field(":path", path) + authority + others, "Missing :method header"},
      {"", "Missing :method header"},
      {CallFields(path.substr(1)),
       "grpc-status\x02"
       "12"},
      {CallFields("/" + path),
       "grpc-status\x02"
       "12"},
      {CallFields("svcmap.v1.Control/Apply"),
       "grpc-status\x02"
       "12"},
      {CallFields(""),
       "grpc-status\x02"
       "12"},
  };
  for (const auto& [fields, error] : cases) {
    const std::string response = ResponseTo(world, GetParam(), fields);
    EXPECT_THAT(response, AllOf(HasSubstr(error), Not(HasSubstr(kSuccess))));
  }
  EXPECT_THAT(ResponseTo(world, GetParam(), CallFields(path)), HasSubstr(kSuccess));
}

TEST_P(MalformedCallTest, CompressedCallsAreRejected) {
  World& world = WorldOf(GetParam(), /*fresh=*/true);
  for (const char* encoding : {"gzip", "deflate"}) {
    const std::string fields =
        CallFields("/svcmap.v1.Control/GetStatus") + Field("grpc-encoding", encoding);
    EXPECT_THAT(ResponseTo(world, GetParam(), fields), HasSubstr("grpc-status\x02"
                                                                 "12"));
  }
}

INSTANTIATE_TEST_SUITE_P(Hostile, MalformedCallTest,
                         ::testing::Values(Peer::kAnonymous, Peer::kReaderUid, Peer::kWriterUid),
                         [](const auto& info) { return NameOf(info.param); });

// A peer uses all its connections and calls, and reads no responses.
class UnreadTest : public ::testing::TestWithParam<Peer> {};

TEST_P(UnreadTest, AnotherClientOfTheRoleIsAnsweredMeanwhile) {
  World& world = WorldOf(GetParam(), /*fresh=*/true);
  world.NextPeer();
  const auto until = Clock::now() + std::chrono::seconds(20);
  std::vector<std::unique_ptr<Wire>> wires;
  for (int i = 0; i < 32; ++i) {
    wires.push_back(world.Connect(GetParam()));
    ASSERT_TRUE(wires.back());
    std::string bytes = Greeting(0);
    for (uint32_t n = 0; n < 9; ++n) {
      const char* method[] = {"GetStatus", "List", "Dump"};
      bytes += Call(2 * n + 1, std::string("/svcmap.v1.Control/") + method[n % 3]) +
               Frame(kData, kEndStream, 2 * n + 1, MessagePrefix(0));
    }
    ASSERT_TRUE(wires.back()->Send(bytes + Call(19, kReflectionMethod), until));
    AwaitPing(*wires.back());
  }
  world.NextPeer();
  std::vector<double> times;
  const auto end = Clock::now() + AttackTime();
  do {
    for (const char* method : {"GetStatus", "List"}) {
      const std::optional<double> time = TimeOfCall(world, GetParam(), method);
      ASSERT_TRUE(time) << "svcmapd does not answer " << method;
      times.push_back(*time);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  } while (Clock::now() < end);
  std::sort(times.begin(), times.end());
  std::printf("| %s/UnreadResponses | p50 %.2f | p99 %.2f | max %.1f | %zu |\n",
              NameOf(GetParam()).c_str(), times[times.size() / 2], times[times.size() * 99 / 100],
              times.back(), times.size());
  EXPECT_LT(times[times.size() * 99 / 100], ChecksLatency() ? 50 : 1000) << "ms";
}

// Returns a client that does not read its Dump, so that a write of gRPC to its socket is blocked.
std::unique_ptr<Wire> ClientThatBlocksAWrite(World& world, Peer peer) {
  std::vector<v1::Object> services;
  for (int i = 0; i < 3000; ++i) {
    const std::string address = absl::StrCat("10.96.", 1 + i / 250, ".", 1 + i % 250);
    services.push_back(
        testing::AService(absl::StrCat("shop/s", i)).ClusterIp(address).Port("http", 80));
  }
  const absl::Status applied = world.agent().Apply(services);
  EXPECT_TRUE(applied.ok()) << applied;
  std::unique_ptr<Wire> wire = world.Connect(peer);
  constexpr uint32_t kWindow = 1 << 30;
  const std::string desired = "\x08\x01";
  const bool sent =
      wire && wire->Send(Greeting(kWindow) + Frame(kWindowUpdate, 0, 0, Number32(kWindow)) +
                             Call(1, "/svcmap.v1.Control/Dump") +
                             Frame(kData, kEndStream, 1, MessagePrefix(2) + desired),
                         Clock::now() + testing::kHangLimit);
  EXPECT_TRUE(sent);
  constexpr int kMostOfTheBuffer = 150'000;
  EXPECT_TRUE(WaitUntil([&] { return sent && wire->Unread() > kMostOfTheBuffer; }));
  return wire;
}

TEST(UnreadDumpTest, OfATrustedClientDelaysOtherDumpsForALimitedTime) {
  World& world = WorldOf(Peer::kRoot, /*fresh=*/true);
  const std::unique_ptr<Wire> wire = ClientThatBlocksAWrite(world, Peer::kRoot);
  EXPECT_TRUE(TimeOfCall(world, Peer::kRoot, "Dump"));
  EXPECT_THAT(world.agent().log(), HasSubstr("reason=responses-not-read"));
}

class StopTest : public ::testing::TestWithParam<Peer> {};

TEST_P(StopTest, DoesNotWaitForClientsThatDoNotRead) {
  World world(/*tls=*/false);
  const std::unique_ptr<Wire> wire = ClientThatBlocksAWrite(world, GetParam());
  const absl::Status stopped = world.agent().Stop();  // Requires exit status 0.
  EXPECT_TRUE(stopped.ok()) << stopped;
}

INSTANTIATE_TEST_SUITE_P(Hostile, StopTest, ::testing::Values(Peer::kWriterUid, Peer::kRoot),
                         [](const auto& info) { return NameOf(info.param); });

INSTANTIATE_TEST_SUITE_P(Hostile, UnreadTest,
                         ::testing::Values(Peer::kAnonymous, Peer::kReaderUid, Peer::kWriterUid),
                         [](const auto& info) { return NameOf(info.param); });

}  // namespace
}  // namespace svcmap::hostile
