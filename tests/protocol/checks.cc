#include "tests/protocol/checks.h"

namespace svcmap::protocol {
namespace {

// In the order in which they run: first what the later ones rely on.
constexpr Check kChecks[] = {
    {"half-open", "A TCP connection on which HTTP/2 does not begin within 10 s is closed",
     CheckHalfOpenConnections, nullptr, nullptr, true},
    {"silent-stream",
     "A stream on which `Open` has not come within 10 s ends with `DEADLINE_EXCEEDED`",
     CheckSilentStream, nullptr, nullptr, true},
    {"snapshot",
     "At `SnapshotEnd` every held object that was not named by an upsert since `SnapshotBegin` is "
     "removed, **whoever pushed it**.",
     CheckSnapshot},
    {"batches", "One `Ack` for each `Batch` and each `SnapshotEnd`, in the order of their numbers.",
     CheckBatches},
    {"endpoint-delta",
     "What results counts as if the slice had been sent whole: the same checks, the same results",
     CheckEndpointDelta},
    {"resume",
     "Keep the last one with your state and offer it in `Open.state_token`; `Opened.resume` "
     "answers",
     CheckResume},
    {"cuts", "What was acked before stays; what was not acked may or may not be in the kernel.",
     CheckCuts},
    {"fight",
     "When a second controller opens a stream, the first one's ends with `ABORTED: replaced by",
     CheckFight},
    {"replays", "A repeated or lower number ends the stream with `INVALID_ARGUMENT`.",
     CheckReplays},
    {"duplicates", "the kernel was already equal", CheckDuplicates},
    {"protocol-errors",
     "An error that ends the stream is about the protocol, never about an object.",
     CheckProtocolErrors},
    {"bad-objects",
     "nothing of the new object was taken. Its last good state stays; if there was none, it is as "
     "if it had not been sent. The rest of the batch is applied.",
     CheckBadObjects},
    {"not-messages",
     "bytes that are no message, or strings that are not UTF-8, in a unary call; a Push stream "
     "just ends, with `OK` and without an Ack",
     CheckNotMessages},
    {"not-http2", "A TCP connection on which HTTP/2 does not begin within 10 s is closed",
     CheckNotHttp2},
    {"flood",
     "The agent reads at most `limits.max_batches_in_flight` batches that are not acked yet. Then "
     "it stops reading, HTTP/2 flow control fills up, and the controller's writes block.",
     CheckFlood},
    {"large-message", "A message larger than `limits.max_batch_bytes` ends the call.",
     CheckLargeMessage},
    {"fencing",
     "From then on a stream with a lower one, 0 included, and one with the same from somebody "
     "else, ends with `FAILED_PRECONDITION`",
     CheckFencing},
    {"wrong-client", "clients with a valid certificate that this CA signed", CheckWrongClient,
     &Options::wrong_client, "--wrong-client"},
    {"expired-client", "clients with a valid certificate that this CA signed", CheckExpiredClient,
     &Options::expired_client, "--expired-client"},
    {"outside-client", "A call without the required role returns `PERMISSION_DENIED`",
     CheckOutsideClient, &Options::outside_client, "--outside-client"},
    {"readonly-client", "the message names the method and the client", CheckReadonlyClient,
     &Options::readonly_client, "--readonly-client"},
    {"no-certificate", "The client sees a closed connection without a TLS alert",
     CheckNoCertificate, &Options::ca, "--tls-ca"},
    {"plaintext", "The client sees a closed connection without a TLS alert", CheckPlaintext,
     &Options::ca, "--tls-ca"},
};

}  // namespace

std::span<const Check> AllChecks() { return kChecks; }

}  // namespace svcmap::protocol
