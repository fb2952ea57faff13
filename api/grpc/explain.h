// Converts Explain requests and responses between protobuf messages and proxy/explain. Pure
// functions.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proxy/explain/explain.h"
#include "proxy/state/store.h"
#include "svcmap/v1/control.pb.h"

namespace svcmap::api {

// Returns INVALID_ARGUMENT with the field and its value if a field is invalid.
absl::StatusOr<proxy::Question> ToQuestion(const v1::ExplainRequest& request);

void FillExplained(const proxy::Question& question, const proxy::Explained& explained,
                   v1::ExplainResponse& response);

// Returns those of `received` that are about the Service or its EndpointSlices. If an EndpointSlice
// is not stored, only its usual name shows the Service. Must run on the loop's thread.
std::vector<std::string> FindingsAbout(const std::string& service,
                                       const std::vector<proxy::Finding>& received,
                                       const proxy::Store& store);
// Adds the findings to each explanation.
void AddFindings(const std::vector<std::string>& findings, v1::ExplainResponse& response);

void FillKernelCheck(const absl::StatusOr<std::vector<std::string>>& differences, bool pending,
                     v1::KernelCheck& check);

}  // namespace svcmap::api
