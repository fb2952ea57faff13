// Checks of the protocol. main.cc lists the sentence of the documentation that each check verifies.
// The checks send snapshots and require that no other controller uses the agent. Checks that run
// beside other checks send no objects.
#pragma once

#include "tests/protocol/session.h"

namespace svcmap::protocol {

// Defined in controllers.cc.
void CheckSnapshot(const Target& target, Verdict& verdict);
void CheckBatches(const Target& target, Verdict& verdict);
void CheckEndpointDelta(const Target& target, Verdict& verdict);
void CheckResume(const Target& target, Verdict& verdict);
void CheckCuts(const Target& target, Verdict& verdict);
void CheckFight(const Target& target, Verdict& verdict);
void CheckFencing(const Target& target, Verdict& verdict);
// Defined in messages.cc.
void CheckReplays(const Target& target, Verdict& verdict);
void CheckDuplicates(const Target& target, Verdict& verdict);
void CheckProtocolErrors(const Target& target, Verdict& verdict);
void CheckBadObjects(const Target& target, Verdict& verdict);
void CheckNotMessages(const Target& target, Verdict& verdict);
void CheckNotHttp2(const Target& target, Verdict& verdict);
void CheckLargeMessage(const Target& target, Verdict& verdict);
// Defined in connections.cc.
void CheckHalfOpenConnections(const Target& target, Verdict& verdict);
void CheckSilentStream(const Target& target, Verdict& verdict);
void CheckFlood(const Target& target, Verdict& verdict);
void CheckWrongClient(const Target& target, Verdict& verdict);
void CheckExpiredClient(const Target& target, Verdict& verdict);
void CheckOutsideClient(const Target& target, Verdict& verdict);
void CheckReadonlyClient(const Target& target, Verdict& verdict);
void CheckNoCertificate(const Target& target, Verdict& verdict);
void CheckPlaintext(const Target& target, Verdict& verdict);

}  // namespace svcmap::protocol
