#include "tests/netns/flow.h"

#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "tests/support/chance.h"

namespace svcmap::testing {
namespace {

const Address kLoopback = {"127.0.0.1", "::1"};

// Minimum number of connections of a flow, so that an unexpected endpoint is probably found.
constexpr int kFewest = 12;

struct Sender {
  const Host* host = nullptr;
  std::string ip;
};

Sender Find(const World& world, const std::string& letters, bool v6) {
  if (letters == "N") return {&world.node(), kNodeSecond.in(v6)};
  if (letters == "VIP") return {&world.node(), kLoadBalancerIp.in(v6)};
  if (letters == "B") return {world.client, kOtherClient.in(v6)};
  const auto found = world.cast.find(letters);
  if (found == world.cast.end()) return {};
  return {found->second, found->second->address(v6)};
}

// Parses "V:80", "W:53/udp" or "N:NP". Returns a request without a destination if the text is
// invalid.
Request ParseTarget(const std::string& text, bool v6) {
  static const auto& addresses =
      *new std::map<std::string, Address>{{"V", kV},
                                          {"W", kW},
                                          {"EIP", kExternalIp},
                                          {"VIP", kLoadBalancerIp},
                                          {"VIP2", kSecondLoadBalancerIp},
                                          {"N", kNode},
                                          {"N2", kNodeSecond},
                                          {"LO", kLoopback},
                                          {"FREE", ClusterIp(97)}};
  const std::vector<std::string> halves = absl::StrSplit(text, '/');
  const std::vector<std::string> parts = absl::StrSplit(halves[0], ':');
  Request request;
  if (halves.size() == 2 && halves[1] == "udp") request.protocol = Protocol::kUdp;
  if (halves.size() == 2 && halves[1] == "sctp") request.protocol = Protocol::kSctp;
  int port = 0;
  if (parts.size() != 2 || addresses.count(parts[0]) == 0) return {};
  if (parts[1] == "NP") {
    port = kNodePort;
  } else if (!absl::SimpleAtoi(parts[1], &port)) {
    return {};
  }
  request.destination = addresses.at(parts[0]).in(v6);
  request.port = static_cast<uint16_t>(port);
  return request;
}

// Returns the server names for a list of flow names such as "L1,R1".
std::set<std::string> ServerNames(const World& world, const std::string& list) {
  std::set<std::string> names;
  for (const auto& piece : absl::StrSplit(list, ',')) {
    const std::string letters(piece);
    const auto found = world.cast.find(letters);
    names.insert(found == world.cast.end() ? letters : found->second->name());
  }
  return names;
}

// Splits `text` at `mark`: `text` keeps the first part, and the function returns the part after the
// mark.
std::string CutBehind(std::string* text, char mark) {
  const size_t at = text->find(mark);
  if (at == std::string::npos) return "";
  const std::string behind = text->substr(at + 1);
  text->resize(at);
  return behind;
}

}  // namespace

Flows Each(const Names& sources, const Names& destinations, const std::string& outcome) {
  Flows flows;
  for (const std::string& source : sources) {
    for (const std::string& destination : destinations) {
      flows.push_back({absl::StrCat(source, " -> ", destination), outcome});
    }
  }
  return flows;
}

std::ostream& operator<<(std::ostream& out, const Row& row) {
  return out << row.requirement << " " << row.what;
}

Objects Slices(const World& world, const std::string& service, const std::string& endpoints) {
  Objects slices;
  for (const bool v6 : {false, true}) {
    ASlice slice(service);
    slice.Named(absl::StrCat(service.substr(service.find('/') + 1), v6 ? "-v6" : "-v4"));
    for (const auto& piece : absl::StrSplit(endpoints, ' ', absl::SkipEmpty())) {
      std::string letters(piece);
      const std::string node_hint = CutBehind(&letters, '%');
      const std::string zone_hint = CutBehind(&letters, '@');
      const std::string condition = CutBehind(&letters, ':');
      slice.Endpoint(Find(world, letters, v6).ip, letters[0] == 'L' ? kAgentNode : "n2");
      if (condition == "st") slice.Terminating();
      if (condition == "x") slice.NotReady();
      if (condition == "tx") slice.Terminating(/*serving=*/false);
      if (!zone_hint.empty()) slice.ZoneHint(zone_hint);
      if (!node_hint.empty()) slice.NodeHint(node_hint);
    }
    for (const Protocol protocol : kProtocols) {
      slice.Port(ProtocolName(protocol), kPodPort, protocol);
    }
    v1::Object object = slice;
    object.mutable_endpoint_slice()->set_address_type(v6 ? "IPv6" : "IPv4");
    slices.push_back(std::move(object));
  }
  return slices;
}

void FlowTest::SetUp() {
  ServiceTest::SetUp();
  if (HasFatalFailure()) return;
  ASSERT_OK_AND_ASSIGN(node_process_, EchoServer::Start(node().netns()));
  for (const Address& address : {kNode, kNodeSecond, kLoopback}) {
    for (const bool v6 : {false, true}) {
      ASSERT_OK(node_process_->Listen({Protocol::kTcp, address.in(v6), kNodePort, "node-process"}));
    }
  }
}

void FlowTest::Check(const Row& row, bool v6) {
  ASSERT_OK(agent().Apply(row.services + Slices(*world(), "shop/web", row.endpoints)));
  for (const Flow& flow : row.flows) Expect(flow, v6);
}

void FlowTest::Expect(const Flow& flow, bool v6) {
  SCOPED_TRACE(absl::StrCat(flow.from_to, " = ", flow.outcome));
  const std::vector<std::string> ends = absl::StrSplit(flow.from_to, " -> ");
  const std::vector<std::string> outcome = absl::StrSplit(flow.outcome, ' ');
  ASSERT_EQ(ends.size(), 2u);
  const Sender sender = Find(*world(), ends[0], v6);
  Request request = ParseTarget(ends[1], v6);
  ASSERT_NE(sender.host, nullptr) << "nobody is called " << ends[0];
  ASSERT_NE(request.port, 0) << ends[1] << " is not understood";
  request.source = sender.ip;
  const auto ask = [&] { return Ask(sender.host->netns(), request); };

  if (flow.outcome == "REJECT") {
    EXPECT_REJECTED(ask());
  } else if (flow.outcome == "ICMP") {
    const Answer answer = ask();
    EXPECT_TRUE(answer.PortUnreachable()) << answer;
  } else if (flow.outcome == "DROP") {
    request.timeout = kShort;
    EXPECT_NO_ANSWER(ask());
  } else if (flow.outcome == "untouched") {
    const bool to_node = ends[1][0] == 'N' || ends[1][0] == 'L';
    EXPECT_ANSWERED_BY(ask(), to_node ? "node-process" : "outside", sender.ip);
  } else {
    ASSERT_TRUE(outcome.size() == 2 && (outcome[1] == "m" || outcome[1] == "-"))
        << "the outcome is not understood";
    const std::string seen = outcome[1] == "m" ? kNode.in(v6) : sender.ip;
    const std::set<std::string> wanted = ServerNames(*world(), outcome[0]);
    std::set<std::string> answered;
    const int most = std::max(kFewest, TriesToReachAll(static_cast<int>(wanted.size())));
    for (int i = 0; i < most && (i < kFewest || answered != wanted); ++i) {
      const Answer answer = ask();
      ASSERT_TRUE(answer.outcome == Outcome::kAnswered && answer.seen_ip == seen &&
                  wanted.count(answer.server) == 1)
          << "expected one of " << absl::StrJoin(wanted, ", ") << " seeing " << seen << ", got "
          << answer;
      answered.insert(answer.server);
    }
    EXPECT_EQ(answered, wanted);
  }
}

absl::Status FlowTest::ChangeNodeAddress(const char* verb, const std::string& address) {
  Command command = {.argv = {"ip", "addr", verb, address, "dev", "sink"},
                     .netns = &node().netns()};
  // `nodad` makes the address usable immediately.
  if (address.find(':') != std::string::npos) command.argv.push_back("nodad");
  return RunOk(command).status();
}

std::string RowParamName(const ::testing::TestParamInfo<std::tuple<bool, Row>>& info) {
  const auto& [v6, row] = info.param;
  return absl::StrCat(row.requirement, v6 ? "_IPv6_" : "_IPv4_", row.what);
}

}  // namespace svcmap::testing
