// Selects the connections of a scenario and compares their results with the model.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "tests/differential/affinity_memory.h"
#include "tests/differential/dice.h"
#include "tests/differential/differential_world.h"
#include "tests/differential/reference_model.h"
#include "tests/support/agent.h"

namespace svcmap::testing {

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
