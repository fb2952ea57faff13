// Open TCP connections through Services while the objects change. The model predicts which of them
// are reset because their endpoint is gone.
#pragma once

#include <string>
#include <vector>

#include "tests/differential/dice.h"
#include "tests/differential/probes.h"
#include "tests/differential/reference_model.h"
#include "tests/support/transfer.h"

namespace svcmap::testing {

class OpenConnections {
 public:
  // Opens connections from random sources to random Service ports without affinity.
  void Open(const std::vector<Source>& sources, const ReferenceModel& model, Dice& dice);

  // The agent has applied `objects`, which `model` describes.
  void Follow(const Objects& objects, const ReferenceModel& model);

  // Compares all connections with the prediction for the last state, and closes them.
  void CheckAndClose(const ReferenceModel& model, ProbeReport& report);

 private:
  struct Connection {
    Packet packet;
    std::string service;   // For example "shop/web".
    std::string endpoint;  // For example "10.244.1.11:8080".
    bool range;            // True if the connection uses a port range, which is never reset.
    TcpFlow flow;
    // True if the agent resets the connection when its endpoint is gone, in all states so far.
    bool resets = true;
    // False if a change makes the result depend on the time of the agent's cleanup.
    bool predictable = true;
    bool endpoint_gone = false;
  };

  std::vector<Connection> connections_;
};

}  // namespace svcmap::testing
