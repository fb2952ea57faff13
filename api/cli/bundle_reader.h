// Answers read-only calls from a support bundle.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "api/cli/client.h"

namespace svcmap::api {

class BundleReader : public Reader {
 public:
  // Reads the file completely.
  static absl::StatusOr<std::unique_ptr<BundleReader>> Open(const std::string& path);
  // `files` contains the contents of the bundle by name.
  explicit BundleReader(std::map<std::string, std::string> files) : files_(std::move(files)) {}

  absl::StatusOr<v1::GetStatusResponse> GetStatus() override;
  // Returns the stored explanation. Returns an error if the bundle has no explanation of the
  // destination, or if the request has a source other than "node", because a bundle contains one
  // explanation for each kind of source.
  absl::StatusOr<v1::ExplainResponse> Explain(const v1::ExplainRequest& request) override;
  absl::Status List(const ObjectId& filter,
                    const std::function<bool(const v1::Object&)>& take) override;
  absl::Status Dump(v1::DumpRequest::What what,
                    const std::function<bool(const std::string& text)>& take) override;

 private:
  absl::StatusOr<const std::string*> File(const std::string& name) const;

  const std::map<std::string, std::string> files_;
};

}  // namespace svcmap::api
