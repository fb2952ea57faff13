// Describes one connection in a scenario, and compares its result with the model.
#pragma once

#include <optional>
#include <string>

#include "tests/differential/affinity_memory.h"
#include "tests/differential/reference_model.h"
#include "tests/support/answer.h"

namespace svcmap::testing {

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

}  // namespace svcmap::testing
