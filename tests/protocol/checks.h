// Checks of the protocol. Each check contains the sentence of the documentation that it verifies.
// The checks send snapshots and require that no other controller uses the agent. Checks with
// `beside` run concurrently with other checks and send no objects.
#pragma once

#include <span>
#include <string>

#include "tests/protocol/target.h"
#include "tests/protocol/verdict.h"

namespace svcmap::protocol {

struct Check {
  const char* name;
  const char* promise;  // The verified sentence, verbatim from proto/README.md or docs/security.md.
  void (*run)(const Target&, Verdict&);
  // Option that the check requires, with its flag, or null if the check requires no option.
  std::string Options::*needs = nullptr;
  const char* flag = nullptr;
  // True if the check runs concurrently with other checks, because the check mostly waits.
  bool beside = false;
};

std::span<const Check> AllChecks();

// Defined in correct_controller.cc.
void CheckSnapshot(const Target& target, Verdict& verdict);
void CheckBatches(const Target& target, Verdict& verdict);
void CheckEndpointDelta(const Target& target, Verdict& verdict);
void CheckResume(const Target& target, Verdict& verdict);
// Defined in cuts.cc.
void CheckCuts(const Target& target, Verdict& verdict);
// Defined in leaders.cc.
void CheckFight(const Target& target, Verdict& verdict);
void CheckFencing(const Target& target, Verdict& verdict);
// Defined in numbers.cc.
void CheckReplays(const Target& target, Verdict& verdict);
void CheckDuplicates(const Target& target, Verdict& verdict);
// Defined in protocol_errors.cc.
void CheckProtocolErrors(const Target& target, Verdict& verdict);
// Defined in bad_objects.cc.
void CheckBadObjects(const Target& target, Verdict& verdict);
// Defined in not_messages.cc.
void CheckNotMessages(const Target& target, Verdict& verdict);
void CheckNotHttp2(const Target& target, Verdict& verdict);
// Defined in flood.cc.
void CheckFlood(const Target& target, Verdict& verdict);
// Defined in large_message.cc.
void CheckLargeMessage(const Target& target, Verdict& verdict);
// Defined in half_open.cc.
void CheckHalfOpenConnections(const Target& target, Verdict& verdict);
void CheckSilentStream(const Target& target, Verdict& verdict);
// Defined in clients.cc.
void CheckWrongClient(const Target& target, Verdict& verdict);
void CheckExpiredClient(const Target& target, Verdict& verdict);
void CheckOutsideClient(const Target& target, Verdict& verdict);
void CheckReadonlyClient(const Target& target, Verdict& verdict);
void CheckNoCertificate(const Target& target, Verdict& verdict);
void CheckPlaintext(const Target& target, Verdict& verdict);

}  // namespace svcmap::protocol
