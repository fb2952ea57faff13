// Selects the connections of a scenario and compares their results with the model.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/differential/dice.h"
#include "tests/differential/differential_world.h"
#include "tests/differential/reference_model.h"
#include "tests/support/agent.h"
#include "tests/support/client.h"

namespace svcmap::testing {

// Predicts session affinity (S-122 to S-126), and picks by a hash of the client address, from the
// answers that clients received.
//
// Stores one record for each client and Service port. The record contains the endpoint that was
// used last. If a client alternates between the cluster endpoint set and the local endpoint set,
// S-125 requires several records. docs/decisions/0002 explains why svcmap stores only one record.
class AffinityMemory {
 public:
  // Returns the predicted endpoints that a new connection from `client` may use (S-123).
  std::vector<Choice> Allowed(const std::string& client, const Prediction& prediction) const;

  // Records the endpoint that a connection used, if the next connection must use it, too.
  void Remember(const std::string& client, const Prediction& prediction, const Choice& choice);

  // Deletes the client's record after a connection whose endpoint is unknown.
  void Forget(const std::string& client, const Prediction& prediction);

  // Deletes the records for endpoints that a change removed, and keeps all other records (S-126).
  void Keep(const std::map<std::string, std::set<std::string>>& reachable);

 private:
  using Records = std::map<std::pair<std::string, std::string>, std::string>;
  Records records_;  // Records by client and Service port.
  Records picks_;    // Endpoints by client and hash table. They are never deleted.
};

// Describes one connection in a scenario, and compares its result with the model.
struct TriedConnection {
  Packet packet;
  Prediction prediction;
  Answer answer;
};

bool IsV6(const std::string& ip);

// Returns true if no answer is expected, because the packet is dropped or may reach an endpoint
// that has no route back.
bool InVain(const TriedConnection& tried);

// Returns the endpoint that answered the connection.
std::optional<Choice> TakenChoice(const TriedConnection& tried);

// Returns the expected result if it differs from the actual result, otherwise nullopt. Judge must
// be called in the order in which the connections were opened, because Judge updates affinity
// records.
std::optional<std::string> Judge(const TriedConnection& tried, AffinityMemory& affinity);

// Results of a scenario's connections. The test connects from every source to every address and
// port of a Service, and to some unassigned addresses. Successful connections are repeated. All
// sources send in parallel. Contains one string per difference from the model.
struct ProbeReport {
  std::map<std::string, size_t> count;  // Number of probes by Prediction::why.
  std::vector<std::string> mismatches;
};

// Timeout for answers that should arrive. The test waits for the full timeout only if a connection
// fails.
inline constexpr std::chrono::milliseconds kPatience{2000};
// Time to wait if no answer is expected.
inline constexpr std::chrono::milliseconds kInVain{80};

// Returns packets, without a source, to all addresses and ports.
std::vector<Packet> Destinations();
// Returns the packet `to` with the given source.
Packet PacketFrom(const Source& source, const Packet& to);
bool IsLoopback(const Source& source);

ProbeReport Probe(const std::vector<Source>& sources, const ReferenceModel& model, Dice& dice,
                  AffinityMemory& affinity);

// Compares the agent's explanations of random connections with the model.
void CompareExplanations(Agent& agent, const std::vector<Source>& sources,
                         const ReferenceModel& model, Dice& dice, ProbeReport& report);

// Sends echo requests from random sources to random addresses, and compares the results with the
// model.
void Ping(const std::vector<Source>& sources, const ReferenceModel& model, Dice& dice,
          ProbeReport& report);

}  // namespace svcmap::testing
