// Tests that use clients without valid credentials or without the required role. Each client uses a
// separate connection. The authorized client must be able to call the agent before and after each
// check.
#include "tests/protocol/checks.h"
#include "tests/protocol/session.h"

namespace svcmap::protocol {
namespace {

// Reads a file that contains both a certificate and its key. `pem` is empty if the client has no
// certificate.
std::shared_ptr<grpc::ChannelCredentials> CredentialsOf(const Target& target,
                                                        const std::string& pem) {
  return grpc::SslCredentials({target.options().ca, pem, pem});
}

// Status codes of one call of each kind: GetStatus, Apply and Push.
struct Ends {
  grpc::Status status, apply, push;
};

Ends CallAll(const Target& target, const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
  Ends ends;
  const auto channel = target.Connect(credentials);
  const auto stub = v1::Control::NewStub(channel);
  {
    grpc::ClientContext context;
    SetDeadline(context);
    v1::GetStatusResponse response;
    ends.status = stub->GetStatus(&context, {}, &response);
  }
  {
    grpc::ClientContext context;
    SetDeadline(context);
    v1::Ack ack;
    ends.apply = stub->Apply(&context, {}, &ack);
  }
  Session session(v1::Control::NewStub(channel));
  session.Open(target);
  ends.push = session.Finish();
  return ends;
}

void ExpectHungUp(const Target& target, const std::string& who,
                  const std::shared_ptr<grpc::ChannelCredentials>& credentials, Verdict& verdict) {
  ExpectAlive(target, "before", verdict);
  const Ends ends = CallAll(target, credentials);
  for (const grpc::Status& end : {ends.status, ends.apply, ends.push}) {
    verdict.Equal("a call " + who + ":", "UNAVAILABLE", CodeName(end.error_code()));
  }
  ExpectAlive(target, "after", verdict);
}

// Expects PERMISSION_DENIED and a message that contains the method, the client and `role`.
void ExpectDenied(const std::string& method, const std::string& role, const grpc::Status& end,
                  Verdict& verdict) {
  verdict.Equal(method + " to end with", "PERMISSION_DENIED", CodeName(end.error_code()));
  verdict.Contains("the error message", "svcmap.v1.Control/" + method + " denied: client ",
                   end.error_message());
  verdict.Contains("the error message", role, end.error_message());
}

}  // namespace

void CheckWrongClient(const Target& target, Verdict& verdict) {
  ExpectHungUp(target, "with a certificate of an unknown CA",
               CredentialsOf(target, target.options().wrong_client), verdict);
}

void CheckExpiredClient(const Target& target, Verdict& verdict) {
  ExpectHungUp(target, "with a certificate that has expired",
               CredentialsOf(target, target.options().expired_client), verdict);
}

void CheckOutsideClient(const Target& target, Verdict& verdict) {
  const Ends ends = CallAll(target, CredentialsOf(target, target.options().outside_client));
  const std::string role = "is not authorized to read or write";
  ExpectDenied("GetStatus", role, ends.status, verdict);
  ExpectDenied("Apply", role, ends.apply, verdict);
  ExpectDenied("Push", role, ends.push, verdict);
}

void CheckReadonlyClient(const Target& target, Verdict& verdict) {
  const Ends ends = CallAll(target, CredentialsOf(target, target.options().readonly_client));
  verdict.Equal("GetStatus of a client with read access:", "OK", Text(ends.status));
  ExpectDenied("Apply", "may only read", ends.apply, verdict);
  ExpectDenied("Push", "may only read", ends.push, verdict);
}

void CheckNoCertificate(const Target& target, Verdict& verdict) {
  ExpectHungUp(target, "without a certificate", grpc::SslCredentials({target.options().ca, "", ""}),
               verdict);
}

void CheckPlaintext(const Target& target, Verdict& verdict) {
  ExpectHungUp(target, "without TLS", grpc::InsecureChannelCredentials(), verdict);
}

}  // namespace svcmap::protocol
