// What clients with session affinity may expect (S-122 to S-126), told by the answers they got.
//
// One record per client and service port, the endpoint used last. Where a client uses cluster and
// local set in turn, S-125 knows several records; docs/decisions/0002 says why svcmap does not.
#ifndef SVCMAP_TESTS_DIFFERENTIAL_AFFINITY_MEMORY_H_
#define SVCMAP_TESTS_DIFFERENTIAL_AFFINITY_MEMORY_H_

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/differential/reference_model.h"

namespace svcmap::testing {

class AffinityMemory {
 public:
  // Of the choices predicted, those that a new connection of `client` may go to (S-123).
  std::vector<Choice> Allowed(const std::string& client, const Prediction& prediction) const;

  // It went there.
  void Remember(const std::string& client, const Prediction& prediction, const Choice& choice);

  // It went somewhere, nobody knows where.
  void Forget(const std::string& client, const Prediction& prediction);

  // After a change: records of endpoints that left are gone, all others stay (S-126).
  void Keep(const std::map<std::string, std::set<std::string>>& reachable);

 private:
  std::map<std::pair<std::string, std::string>, std::string> records_;  // Of (client, service port)
};

}  // namespace svcmap::testing

#endif  // SVCMAP_TESTS_DIFFERENTIAL_AFFINITY_MEMORY_H_
