#include "tests/protocol/session.h"

namespace svcmap::protocol {

Session::Session(const Target& target) : stub_(target.stub()) { Start(); }

Session::Session(std::unique_ptr<v1::Control::Stub> stub) : own_(std::move(stub)), stub_(*own_) {
  Start();
}

void Session::Start() {
  SetDeadline(context_);
  stream_ = stub_.Push(&context_);
}

Session::~Session() {
  if (status_) return;
  context_.TryCancel();
  (void)stream_->Finish();
}

v1::PushRequest Session::OpenRequest(const Target& target, const std::string& state_token) {
  v1::PushRequest request;
  v1::Open& open = *request.mutable_open();
  open.set_name(kController);
  open.set_protocol_version(2);
  open.set_epoch(target.epoch());
  open.set_state_token(state_token);
  return request;
}

bool Session::Write(const v1::PushRequest& request) { return !status_ && stream_->Write(request); }

std::optional<v1::PushResponse> Session::Read() {
  v1::PushResponse response;
  if (status_ || !stream_->Read(&response)) return std::nullopt;
  return response;
}

v1::Opened Session::Open(const Target& target, const std::string& state_token) {
  Write(OpenRequest(target, state_token));
  const auto response = Read();
  return response ? response->opened() : v1::Opened();
}

bool Session::Begin() {
  v1::PushRequest request;
  request.mutable_snapshot_begin();
  return Write(request);
}

bool Session::Batch(uint64_t number, const Changes& changes) {
  v1::PushRequest request;
  request.mutable_batch()->set_number(number);
  for (const v1::Change& change : changes) *request.mutable_batch()->add_changes() = change;
  return Write(request);
}

bool Session::End(uint64_t number) {
  v1::PushRequest request;
  request.mutable_snapshot_end()->set_number(number);
  request.mutable_snapshot_end()->set_accept_removals(true);
  return Write(request);
}

v1::Ack Session::Ack() {
  const auto response = Read();
  return response ? response->ack() : v1::Ack();
}

grpc::Status Session::HalfClose() {
  if (!status_) stream_->WritesDone();
  return Finish();
}

grpc::Status Session::Finish() {
  if (!status_) {
    while (Read()) {
    }
    status_ = stream_->Finish();
  }
  return *status_;
}

std::string Replace(const Target& target, const Changes& objects, Verdict& verdict) {
  Session session(target);
  session.Open(target);
  session.Begin();
  session.Batch(1, objects);
  session.End(2);
  session.Ack();
  const v1::Ack end = session.Ack();
  const bool good = end.outcome() == v1::COMMITTED || end.outcome() == v1::UNCHANGED;
  const grpc::Status status = session.HalfClose();
  verdict.That(good && status.ok(), "for the initial snapshot Ack{2, COMMITTED or UNCHANGED}",
               end.ShortDebugString() + ", " + Text(status));
  return end.state_token();
}

void ExpectStored(const Target& target, const State& expected, const std::string& when,
                  Verdict& verdict) {
  State held;
  const grpc::Status status = target.List(&held);
  verdict.Equal("List " + when + ":", "OK", Text(status));
  verdict.That(held == expected,
               when + " exactly " + std::to_string(expected.size()) + " objects in List",
               Difference(expected, held));
}

void ExpectAck(const v1::Ack& ack, uint64_t number, v1::Outcome outcome, Verdict& verdict) {
  verdict.That(ack.number() == number && ack.outcome() == outcome,
               "Ack{" + std::to_string(number) + ", " + v1::Outcome_Name(outcome) + "}",
               ack.ShortDebugString());
}

void ExpectAlive(const Target& target, const std::string& when, Verdict& verdict) {
  v1::GetStatusResponse response;
  verdict.Equal("GetStatus " + when + ":", "OK", Text(target.GetStatus(&response)));
}

}  // namespace svcmap::protocol
