#include "tests/loss/flow_generator.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "absl/strings/str_cat.h"
#include "tests/support/wait.h"

namespace svcmap::testing {
namespace {

using std::chrono::duration;
using std::chrono::milliseconds;

constexpr int kBatch = 64;
constexpr milliseconds kTick{1};
// The generator skips flows that are later than this time, because a burst could overflow the
// queues of the virtual devices.
constexpr milliseconds kLatest{20};

}  // namespace

struct FlowGenerator::Datagram {
  iphdr ip;
  udphdr udp;
  std::array<uint8_t, 8> payload;
};

absl::StatusOr<std::unique_ptr<FlowGenerator>> FlowGenerator::Start(const NetNs& netns,
                                                                    FlowOptions options) {
  UniqueFd socket =
      netns.Run([] { return UniqueFd(::socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_RAW)); });
  if (!socket.ok()) return absl::ErrnoToStatus(errno, "raw socket");
  std::unique_ptr<FlowGenerator> generator(
      new FlowGenerator(std::move(socket), std::move(options)));
  generator->thread_ = std::thread([raw = generator.get()] { raw->Send(); });
  return generator;
}

FlowGenerator::~FlowGenerator() { Stop(); }

void FlowGenerator::Stop() {
  stop_ = true;
  if (thread_.joinable()) thread_.join();
}

double FlowGenerator::per_second() const {
  return static_cast<double>(sent_) / duration<double>(end_ - start_).count();
}

absl::Status FlowGenerator::Go(int64_t flows) const {
  const int64_t goal = sent_ + flows;
  if (WaitUntil([&] { return sent_ >= goal; })) return absl::OkStatus();
  return absl::DeadlineExceededError(absl::StrCat("sent only ", sent(), " datagrams"));
}

void FlowGenerator::Send() {
  Clock::time_point origin = start_;  // Moves forward when flows are skipped.
  while (!stop_ && Clock::now() < start_ + options_.longest) {
    const auto late = Clock::now() - origin;
    const auto due = static_cast<int64_t>(duration<double>(late).count() * options_.per_second);
    const auto most = static_cast<int64_t>(duration<double>(kLatest).count() * options_.per_second);
    const int64_t behind = due - sent_;
    if (behind > most) origin += kLatest;
    if (behind <= 0) {
      std::this_thread::sleep_for(kTick);
      continue;
    }
    sent_ += SendBatch(sent_, static_cast<int>(std::min<int64_t>(behind, kBatch)));
  }
  end_ = Clock::now();
}

int FlowGenerator::SendBatch(int64_t first, int count) {
  std::array<Datagram, kBatch> datagrams = {};
  std::array<sockaddr_in, kBatch> destinations = {};
  std::array<iovec, kBatch> buffers = {};
  std::array<mmsghdr, kBatch> messages = {};
  const auto targets = static_cast<int64_t>(options_.targets.size());
  for (int i = 0; i < count; ++i) {
    const FlowTarget& target = options_.targets[static_cast<size_t>((first + i) % targets)];
    const int64_t source = (first + i) / targets % options_.sources;
    sockaddr_in& destination = destinations[i];
    destination.sin_family = AF_INET;
    ::inet_pton(AF_INET, target.address.c_str(), &destination.sin_addr);
    Datagram& datagram = datagrams[i];
    // The kernel writes the identification and the header checksum. The UDP checksum 0 means that
    // the sender has not computed a checksum.
    datagram.ip.version = 4;
    datagram.ip.ihl = sizeof(iphdr) / 4;
    datagram.ip.tot_len = htons(sizeof(Datagram));
    datagram.ip.ttl = 64;
    datagram.ip.protocol = IPPROTO_UDP;
    datagram.ip.saddr = htonl(options_.first_source + static_cast<uint32_t>(source));
    datagram.ip.daddr = destination.sin_addr.s_addr;
    datagram.udp.source = htons(target.source_port);
    datagram.udp.dest = htons(target.port);
    datagram.udp.len = htons(sizeof(Datagram) - sizeof(iphdr));
    buffers[i] = {&datagram, sizeof(datagram)};
    messages[i].msg_hdr.msg_name = &destination;
    messages[i].msg_hdr.msg_namelen = sizeof(destination);
    messages[i].msg_hdr.msg_iov = &buffers[i];
    messages[i].msg_hdr.msg_iovlen = 1;
  }
  // A full queue is not a loss, because the watch counts datagrams when they enter the node.
  return std::max(0, ::sendmmsg(socket_.get(), messages.data(), static_cast<unsigned>(count), 0));
}

}  // namespace svcmap::testing
