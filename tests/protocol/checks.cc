#include "tests/protocol/checks.h"

namespace svcmap::protocol {
namespace {

// Checks in execution order. Later checks rely on behavior that earlier checks have verified.
constexpr Check kChecks[] = {
    {"half-open", "A connection without the HTTP/2 preface is closed after 10 s",
     CheckHalfOpenConnections, nullptr, nullptr, true},
    {"silent-stream",
     "A stream on which `Open` has not arrived within 10 s ends with `DEADLINE_EXCEEDED`",
     CheckSilentStream, nullptr, nullptr, true},
    {"snapshot",
     "At `SnapshotEnd`, the agent prunes every stored object that the snapshot did not list, "
     "**from "
     "any source**.",
     CheckSnapshot},
    {"batches",
     "One `Ack` answers each `Batch` and each `SnapshotEnd`, in the order of their numbers.",
     CheckBatches},
    {"endpoint-delta",
     "The agent treats the result like a complete EndpointSlice, so the validation, the results "
     "and the output of `List` are the same.",
     CheckEndpointDelta},
    {"resume",
     "Store the last token together with the controller's state and send it in "
     "`Open.state_token`. `Opened.resume` answers",
     CheckResume},
    {"cuts",
     "Acknowledged changes stay in effect. Changes without an Ack may or may not be in the kernel.",
     CheckCuts},
    {"fight",
     "When a second controller opens a stream, the first stream ends with `ABORTED: replaced by",
     CheckFight},
    {"replays", "A repeated or lower number ends the stream with `INVALID_ARGUMENT`.",
     CheckReplays},
    {"duplicates", "the kernel already had this state", CheckDuplicates},
    {"protocol-errors",
     "An error that ends the stream is about the protocol, never about an object.",
     CheckProtocolErrors},
    {"bad-objects",
     "the object is rejected. The previously accepted version, if any, stays in effect.",
     CheckBadObjects},
    {"not-messages",
     "a unary request is not a valid protobuf message, or contains invalid UTF-8 outside an object",
     CheckNotMessages},
    {"not-http2", "A connection without the HTTP/2 preface is closed after 10 s", CheckNotHttp2},
    {"flood",
     "At either limit, the agent stops reading. When the HTTP/2 flow control window is full, the "
     "writes of the controller block.",
     CheckFlood},
    {"large-message", "A message larger than `limits.max_batch_bytes` ends the call.",
     CheckLargeMessage},
    {"fencing",
     "From then on, a stream with a lower epoch (including 0), or with the same epoch from another "
     "holder, ends with `FAILED_PRECONDITION`",
     CheckFencing},
    {"wrong-client", "clients with a valid certificate that this CA signed", CheckWrongClient,
     &Options::wrong_client, "--wrong-client"},
    {"expired-client", "clients with a valid certificate that this CA signed", CheckExpiredClient,
     &Options::expired_client, "--expired-client"},
    {"outside-client", "A call without the required role returns `PERMISSION_DENIED`",
     CheckOutsideClient, &Options::outside_client, "--outside-client"},
    {"readonly-client", "the message names the method, the client and the flag.",
     CheckReadonlyClient, &Options::readonly_client, "--readonly-client"},
    {"no-certificate", "A TLS handshake fails. The client receives a TLS alert", CheckNoCertificate,
     &Options::ca, "--tls-ca"},
    {"plaintext", "A TLS handshake fails. The client receives a TLS alert", CheckPlaintext,
     &Options::ca, "--tls-ca"},
};

}  // namespace

std::span<const Check> AllChecks() { return kChecks; }

}  // namespace svcmap::protocol
