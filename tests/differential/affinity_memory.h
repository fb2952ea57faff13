// Predicts session affinity (S-122 to S-126), and picks by a hash of the client address, from the
// answers that clients received.
//
// Stores one record for each client and Service port. The record contains the endpoint that was
// used last. If a client alternates between the cluster endpoint set and the local endpoint set,
// S-125 requires several records. docs/decisions/0002 explains why svcmap stores only one record.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/differential/reference_model.h"

namespace svcmap::testing {

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

}  // namespace svcmap::testing
