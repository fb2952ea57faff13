// Runs svcmapd in a namespace, with a controller that is connected to its gRPC socket.
//
//   ASSERT_OK_AND_ASSIGN(auto agent, Agent::Start(topology->node().netns()));
//   ASSERT_OK(agent->Apply({AService("shop/web")..., ASlice("shop/web")...}));
//
// Errors contain the agent's log. Not thread-safe. Only agent.cc knows gRPC.
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

inline constexpr char kAgentNode[] = "n1";  // The --node-name of every agent.

// A controller's stream, limited to two minutes so that tests cannot block. The destructor closes
// it.
class PushStream {
 public:
  ~PushStream();

  const v1::Opened& opened() const;

  // Sends SnapshotBegin, all objects in batches of 1,000, and SnapshotEnd. Returns the Ack of the
  // end with all results, or the first FAILED Ack.
  absl::StatusOr<v1::Ack> Snapshot(const Objects& objects);

  // Sends one batch and returns its Ack.
  absl::StatusOr<v1::Ack> Batch(const std::vector<v1::Change>& changes);

  // Single steps of a snapshot, for tests that interleave steps of several streams.
  absl::Status Begin();
  absl::StatusOr<uint64_t> Send(
      const std::vector<v1::Change>& changes);  // Returns the number of the batch.
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
  // Returns when the agent answers. The node is kAgentNode. Unless `flags` contain them,
  // --cluster-cidr is that of Topology and --state-dir is a temporary directory that the destructor
  // deletes.
  static absl::StatusOr<std::unique_ptr<Agent>> Start(const NetNs& netns,
                                                      const std::vector<std::string>& flags = {});
  // As Start, but returns when the process runs, before svcmapd answers. `program` is the path of
  // svcmapd; if it is empty, the binary of this build.
  static absl::StatusOr<std::unique_ptr<Agent>> Launch(const NetNs& netns,
                                                       const std::vector<std::string>& flags = {},
                                                       const std::string& program = "");
  absl::Status WaitUntilItAnswers();
  ~Agent();  // Kills a running agent. The tables stay in the kernel.

  // Runs `svcmapd --cleanup` in `netns`.
  static absl::Status CleanUp(const NetNs& netns);

  // Unary calls. They return OK only if the changes are committed and no object was rejected.
  absl::Status Apply(const Objects& objects);
  absl::Status Remove(const std::vector<v1::ObjectRef>& objects);

  // Return the response without checks.
  absl::StatusOr<v1::Ack> TryApply(const Objects& objects);
  absl::StatusOr<v1::Ack> TryRemove(const std::vector<v1::ObjectRef>& objects);
  absl::StatusOr<v1::GetStatusResponse> GetStatus();
  absl::StatusOr<std::string> Dump(v1::DumpRequest::What what);
  absl::StatusOr<Objects> List();  // Returns all stored objects.

  // Opens a stream, which replaces the previous one.
  absl::StatusOr<std::unique_ptr<PushStream>> Push(const std::string& controller = "test");

  // Sends `objects` as a complete snapshot on a new stream. Returns OK if the kernel contains
  // exactly this state.
  absl::Status Replace(const Objects& objects);

  // Returns OK if the agent runs, the kernel contains the desired state and the agent reports no
  // error.
  absl::Status CheckServing();

  // Waits until the last commit is on disk, so that the next start uses the saved state.
  absl::Status WaitUntilSaved();

  // Sends SIGTERM and expects exit status 0. The object must not be used afterwards.
  absl::Status Stop();
  absl::Status Kill();  // Sends SIGKILL.

  pid_t pid() const;
  std::string socket() const;  // For example "unix:///tmp/.../agent.sock".
  std::string log() const;

 private:
  struct Impl;
  explicit Agent(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Returns OK if the batch is committed or unchanged, and no object was rejected.
absl::Status CheckAck(const v1::Ack& ack);

}  // namespace svcmap::testing

#endif  // SVCMAP_TESTS_SUPPORT_AGENT_H_
