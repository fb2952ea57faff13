// Fills the response of GetStatus from the status of the loop, the intake and the controller.
#pragma once

#include <optional>

#include "api/grpc/push_stream.h"
#include "api/intake/intake.h"
#include "nft/netlink/batch.h"
#include "proxy/reconcile/loop.h"
#include "proxy/saved/object_store.h"
#include "svcmap/v1/control.pb.h"

namespace svcmap::api {

void FillLoopStatus(const proxy::LoopStatus& status, const nft::TableSpecs& tables,
                    v1::GetStatusResponse& response);
void FillSavedState(const std::string& folder, const proxy::ObjectStoreStatus& store,
                    v1::SavedStateStatus& saved);
void FillController(const std::optional<ActiveSession::Controller>& controller,
                    v1::GetStatusResponse& response);
// `response` must contain the name of the node.
void FillFindings(const Intake& intake, const proxy::LoopStatus& status,
                  v1::GetStatusResponse& response);

void SetTimestamp(google::protobuf::Timestamp& to, std::chrono::system_clock::time_point from);

}  // namespace svcmap::api
