// The real svcmapd in a namespace, and a controller that talks to it over its gRPC socket.
//
//   ASSERT_OK_AND_ASSIGN(auto agent, Agent::Start(topology->node().netns()));
//   ASSERT_OK(agent->Apply({AService("shop/web")..., ASlice("shop/web")...}));
//
// Errors carry the agent's log. Not thread-safe. Only agent.cc knows gRPC.
#ifndef SVCMAP_TESTS_SUPPORT_AGENT_H_
#define SVCMAP_TESTS_SUPPORT_AGENT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "svcmap/v1/control.pb.h"
#include "tests/support/builders.h"
#include "tests/support/netns.h"
#include "tests/support/process.h"

namespace svcmap::testing {

inline constexpr char kAgentNode[] = "n1";  // --node-name of every agent.

// A controller's stream. It lives for at most two minutes, so that nothing waits for ever. Its
// destructor ends it.
class PushStream {
 public:
  ~PushStream();

  const v1::Opened& opened() const;

  // SnapshotBegin, all objects (in batches of 1,000), SnapshotEnd. The Ack of the end, with the
  // results of all; or the first that is FAILED.
  absl::StatusOr<v1::Ack> Snapshot(const Objects& objects);

  // One batch and its Ack.
  absl::StatusOr<v1::Ack> Batch(const std::vector<v1::Change>& changes);

  // The parts of the above, for tests that interleave them.
  absl::Status Begin();
  absl::StatusOr<uint64_t> Send(const std::vector<v1::Change>& changes);  // Number of the batch.
  absl::StatusOr<uint64_t> End();
  absl::StatusOr<v1::Ack> ReadAck();

 private:
  friend class Agent;
  struct Impl;
  explicit PushStream(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

class Agent {
 public:
  // Returns when the agent answers. The node is kAgentNode; without a --cluster-cidr in `flags` it
  // is told those of Topology, and without a --state-dir it keeps its state in a folder of its own,
  // which ends with this object.
  static absl::StatusOr<std::unique_ptr<Agent>> Start(const NetNs& netns,
                                                      const std::vector<std::string>& flags = {});
  // As Start, but returns once the program runs; to be called before any of the calls:
  // `program`: its path; empty: the one of this build.
  static absl::StatusOr<std::unique_ptr<Agent>> Launch(const NetNs& netns,
                                                       const std::vector<std::string>& flags = {},
                                                       const std::string& program = "");
  absl::Status WaitUntilItAnswers();
  ~Agent();  // Kills it if it still runs; the rules stay.

  // `svcmapd --cleanup` in `netns`, to its end.
  static absl::Status CleanUp(const NetNs& netns);

  // Unary calls. OK only if the changes are in the kernel and no object was refused.
  absl::Status Apply(const Objects& objects);
  absl::Status Remove(const std::vector<v1::ObjectRef>& objects);

  // As they are answered, whatever that is.
  absl::StatusOr<v1::Ack> TryApply(const Objects& objects);
  absl::StatusOr<v1::Ack> TryRemove(const std::vector<v1::ObjectRef>& objects);
  absl::StatusOr<v1::GetStatusResponse> GetStatus();
  absl::StatusOr<std::string> Dump(v1::DumpRequest::What what);
  absl::StatusOr<Objects> List();  // All it holds.

  // A new stream replaces the last one.
  absl::StatusOr<std::unique_ptr<PushStream>> Push(const std::string& controller = "test");

  // Opens a stream, sends `objects` as everything there is, and closes it again: OK if the kernel
  // has exactly this afterwards.
  absl::Status Replace(const Objects& objects);

  // OK if the agent is alive, serves what it was told, and has nothing to complain about.
  absl::Status CheckServing();

  // Until the last commit is on disk, with all that is known of it: the next start will trust it.
  absl::Status WaitUntilSaved();

  // SIGTERM; it must end by itself, with 0. No calls after that.
  absl::Status Stop();
  absl::Status Kill();  // SIGKILL.

  pid_t pid() const;
  std::string socket() const;  // "unix:///tmp/.../agent.sock"
  std::string log() const;

 private:
  struct Impl;
  explicit Agent(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// OK if the batch is in the kernel (or already was) and nothing of it was refused.
absl::Status CheckAck(const v1::Ack& ack);

}  // namespace svcmap::testing

#endif  // SVCMAP_TESTS_SUPPORT_AGENT_H_
