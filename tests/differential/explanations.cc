#include "tests/differential/explanations.h"

#include <algorithm>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/support/builders.h"

namespace svcmap::testing {
namespace {

constexpr int kExplanations = 40;  // Number of random connections for each state of a scenario.

v1::Explanation::Verdict ToProto(Verdict verdict) {
  switch (verdict) {
    case Verdict::kDelivered:
      return v1::Explanation::DNAT;
    case Verdict::kRejected:
      return v1::Explanation::REJECT;
    case Verdict::kDropped:
      return v1::Explanation::DROP;
    case Verdict::kUntouched:
      return v1::Explanation::UNTOUCHED;
  }
  return v1::Explanation::VERDICT_UNSPECIFIED;
}

// Returns true if the explanation has the predicted verdict and endpoints.
bool IsAsPredicted(const v1::ExplainResponse& response, const Prediction& prediction) {
  if (response.explanations_size() != 1) return false;
  const v1::Explanation& explanation = response.explanations(0);
  std::vector<Choice> choices;
  for (const v1::ExplainedEndpoint& endpoint : explanation.endpoints()) {
    choices.push_back(
        {endpoint.address(), static_cast<uint16_t>(endpoint.port()), endpoint.masquerade()});
  }
  std::vector<Choice> predicted = prediction.choices;
  std::sort(choices.begin(), choices.end());
  std::sort(predicted.begin(), predicted.end());
  return explanation.verdict() == ToProto(prediction.verdict) && choices == predicted;
}

}  // namespace

void CompareExplanations(Agent& agent, const std::vector<Source>& sources,
                         const ReferenceModel& model, Dice& dice, ProbeReport& report) {
  const std::vector<Packet> destinations = Destinations();
  for (int i = 0; i < kExplanations; ++i) {
    const Source& source = dice.OneOf(sources);
    const Packet& to = dice.OneOf(destinations);
    if (IsLoopback(source)) continue;
    const Packet packet = PacketFrom(source, to);
    const Prediction prediction = model.Predict(packet);
    v1::ExplainRequest request;
    request.set_address(packet.destination);
    request.set_port(packet.port);
    request.set_protocol(ApiName(packet.protocol));
    request.set_from(packet.source);
    request.set_in_interface(packet.interface);
    const absl::StatusOr<v1::ExplainResponse> response = agent.Explain(request);
    ++report.count[absl::StrCat("explained ", prediction.why)];
    if (response.ok() && IsAsPredicted(*response, prediction)) continue;
    std::ostringstream text;
    text << "explain " << packet << "\n    expected " << prediction.ToString() << "\n    saw ";
    response.ok() ? text << response->ShortDebugString() : text << response.status();
    report.mismatches.push_back(text.str());
  }
}

}  // namespace svcmap::testing
