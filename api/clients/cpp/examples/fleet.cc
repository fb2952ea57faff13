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
    status = manifests.status();
    if (status.ok() && !manifests->errors.empty()) {
      status = absl::InvalidArgumentError(manifests->errors[0].ToString());
    }
    if (status.ok()) {
      std::vector<svcmap::v1::Object> objects;
      for (const auto& each : manifests->objects) objects.push_back(each.object);
      status = store.Set(objects);
    }
    if (!status.ok()) std::cerr << status << '\n';
  }
}
