#include "proxy/saved/saved_state.h"

#include "absl/container/flat_hash_map.h"

namespace svcmap::proxy {
namespace {

using Services = std::vector<std::pair<std::string, ServiceRows>>;

void Merge(Services& services, Services&& changed) {
  absl::flat_hash_map<std::string, ServiceRows*> found;
  for (auto& [key, rows] : changed) found.emplace(key, &rows);
  for (auto& [key, rows] : services) {
    const auto change = found.find(key);
    if (change == found.end()) continue;
    rows = std::move(*change->second);
    found.erase(change);
  }
  for (auto& [key, rows] : changed) {
    if (found.erase(key) > 0) services.emplace_back(std::move(key), std::move(rows));
  }
  std::erase_if(services, [](const auto& service) { return service.second.empty(); });
}

}  // namespace

void Resolve(SavedState& state, bool committed) {
  if (!state.attempt) return;
  SavedState::Attempt attempt = *std::move(state.attempt);
  state.attempt.reset();
  if (!committed) return;
  state.marker = attempt.marker;
  if (state.generation) ++*state.generation;
  if (attempt.whole) {
    state.services.clear();
    state.node_rows.clear();
    state.tables = {};
  }
  Merge(state.services, std::move(attempt.services));
  if (attempt.node_rows) state.node_rows = *std::move(attempt.node_rows);
  if (attempt.tables) state.tables = *std::move(attempt.tables);
}

}  // namespace svcmap::proxy
