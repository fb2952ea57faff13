// Runs svcmapd in a namespace, with a controller that is connected to its gRPC socket.
//
//   ASSERT_OK_AND_ASSIGN(auto agent, Agent::Start(topology->node().netns()));
//   ASSERT_OK(agent->Apply({AService("shop/web")..., ASlice("shop/web")...}));
//
// Errors contain the agent's log. Not thread-safe. Only agent.cc uses gRPC.
#pragma once

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

inline constexpr char kAgentNode[] = "n1";  // Value of --node-name for every agent.

// A controller's stream. The stream has a deadline of two minutes so that tests cannot block. The
// destructor closes the stream.
class PushStream {
 public:
  ~PushStream();

  const v1::Opened& opened() const;

  // Sends SnapshotBegin, all objects in batches of 1,000, and SnapshotEnd. Returns the Ack of
  // SnapshotEnd with all results, or the first FAILED Ack. The agent accepts any number of
  // removals.
  absl::StatusOr<v1::Ack> Snapshot(const Objects& objects);

  // Sends one batch of changes and returns the agent's Ack for this batch.
  absl::StatusOr<v1::Ack> Batch(const std::vector<v1::Change>& changes);

  // Single steps of a snapshot, for tests that interleave steps of several streams.
  absl::Status Begin();
  absl::StatusOr<uint64_t> Send(
      const std::vector<v1::Change>& changes);  // Returns the number of the sent batch.
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
  // Starts svcmapd and returns when svcmapd answers. The node name is kAgentNode. By default,
  // --cluster-cidr is the cluster CIDR of Topology, and --state-dir is a temporary directory that
  // the destructor deletes.
  static absl::StatusOr<std::unique_ptr<Agent>> Start(const NetNs& netns,
                                                      const std::vector<std::string>& flags = {});
  // Starts the process and returns immediately, before svcmapd answers. `program` is the path of
  // svcmapd. If `program` is empty, the binary of this build is used.
  static absl::StatusOr<std::unique_ptr<Agent>> Launch(const NetNs& netns,
                                                       const std::vector<std::string>& flags = {},
                                                       const std::string& program = "");
  absl::Status WaitUntilItAnswers();
  ~Agent();  // Kills a running agent. The tables stay in the kernel.

  // Runs `svcmapd --cleanup` in `netns`.
  static absl::Status CleanUp(const NetNs& netns);

  // Send the changes in a unary call. Return OK only if the changes are committed, no object was
  // rejected, and the removals that follow the Ack (see AwaitRemovals) have ended.
  absl::Status Apply(const Objects& objects);
  absl::Status Remove(const std::vector<v1::ObjectRef>& objects);

  // Send the changes in a unary call and return the agent's response without checks.
  absl::StatusOr<v1::Ack> TryApply(const Objects& objects);
  absl::StatusOr<v1::Ack> TryRemove(const std::vector<v1::ObjectRef>& objects);
  absl::StatusOr<v1::GetStatusResponse> GetStatus();
  absl::StatusOr<v1::ExplainResponse> Explain(const v1::ExplainRequest& request);
  absl::StatusOr<std::string> Dump(v1::DumpRequest::What what);
  // Returns the stored objects of a kind, or of all kinds.
  absl::StatusOr<Objects> List(v1::Kind kind = v1::KIND_UNSPECIFIED);

  // Opens a push stream, which replaces the previous stream of the same controller.
  absl::StatusOr<std::unique_ptr<PushStream>> Push(const std::string& controller = "test");

  // Sends `objects` as a complete snapshot on a new stream. Returns OK if the kernel contains
  // exactly this state.
  absl::Status Replace(const Objects& objects);

  // Waits for the removals of the last change. Until then, the kernel can reject packets to
  // addresses that Services have left, or that have got endpoints (decision 0011).
  absl::Status AwaitRemovals();

  // Returns OK if the agent is running, the kernel contains the desired state and the agent reports
  // no error.
  absl::Status CheckServing();

  // Waits until the last commit is on disk, so that the next start of the agent restores the saved
  // state.
  absl::Status WaitUntilSaved();

  // Sends SIGTERM and expects exit status 0. This Agent must not be used after the call.
  absl::Status Stop();
  absl::Status Kill();  // Sends SIGKILL to svcmapd.

  pid_t pid() const;
  // Returns the agent's address, for example "unix:///tmp/.../agent.sock".
  std::string socket() const;
  std::string log() const;

 private:
  struct Impl;
  explicit Agent(std::unique_ptr<Impl> impl);
  absl::Status AfterRemovals(const absl::StatusOr<v1::Ack>& ack);
  std::unique_ptr<Impl> impl_;
};

// Returns OK if the batch is committed or unchanged, and no object was rejected.
absl::Status CheckAck(const v1::Ack& ack);

}  // namespace svcmap::testing
