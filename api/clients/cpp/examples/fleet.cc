// Keeps a fleet equal to a file or directory with manifests: fleet PATH ETCD-URL PREFIX
#include <iostream>
#include <thread>

#include "api/fleet/store.h"
#include "api/manifests/manifests.h"

int main(int, char** argv) {
  svcmap::fleet::EtcdServers servers;
  absl::Status status = svcmap::fleet::FinishServers({argv[2]}, servers);
  if (!status.ok()) return std::cerr << status << '\n', 2;
  svcmap::fleet::Store store(servers, argv[3], "example");
  for (;; std::this_thread::sleep_for(std::chrono::seconds(1))) {
    const auto manifests = svcmap::api::ReadManifestPath(argv[1]);
    if (status = manifests.status(); status.ok()) {
      auto errors = manifests->errors;  // Contains misspelled kinds and API groups.
      std::vector<svcmap::v1::Object> objects;
      for (const auto& each : manifests->objects) {
        objects.push_back(each.object);
        errors.insert(errors.end(), each.unknown_fields.begin(), each.unknown_fields.end());
      }
      // Set removes all other objects, so the manifests must not contain errors.
      status =
          errors.empty() ? store.Set(objects) : absl::InvalidArgumentError(errors[0].ToString());
    }
    if (!status.ok()) std::cerr << status << '\n';
  }
}
