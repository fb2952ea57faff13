#include "api/preflight/report.h"

#include "api/preflight/preflight.h"

namespace svcmap::api {
NodeReport ReportNode(const nft::TableSpecs& tables) {
  NodeReport report;
  report.fatal = std::string(CheckKernel(tables).message());
  Facts facts = ReadFacts();
  for (Warning& warning : Judge(facts)) {
    report.warnings.push_back(
        {std::move(warning.about), std::move(warning.what), std::move(warning.remedy)});
  }
  report.chains = std::move(facts.chains);
  return report;
}

}  // namespace svcmap::api
