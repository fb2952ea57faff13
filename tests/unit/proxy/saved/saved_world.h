// Model of a state log. The model receives the same calls as the log, and computes the expected
// content of the log's file.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "proxy/saved/state_log.h"
#include "tests/unit/proxy/saved/memory_files.h"

namespace svcmap::proxy::test {

using testing::Dice;

inline IpAddress RandomIp(Dice& dice, Family family) {
  uint8_t bytes[16];
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(dice.Below(256));
  return *IpAddress::FromBytes({bytes, family == Family::kIpv4 ? size_t{4} : size_t{16}});
}
inline uint16_t RandomPort(Dice& dice) { return static_cast<uint16_t>(dice.Below(65536)); }

inline std::vector<EndpointAddress> RandomEndpoints(Dice& dice, Family family, size_t max) {
  std::vector<EndpointAddress> endpoints(dice.Below(max + 1));
  for (EndpointAddress& endpoint : endpoints) {
    endpoint = {RandomIp(dice, family), RandomPort(dice)};
  }
  return endpoints;
}

inline PortRows RandomPortRows(Dice& dice) {
  PortRows port;
  port.family = kFamilies[dice.Below(2)];
  port.name = std::string(dice.Below(3), static_cast<char>('a' + dice.Below(26)));
  constexpr Protocol kProtocols[] = {Protocol::kTcp, Protocol::kUdp, Protocol::kSctp};
  port.protocol = dice.OneOf(kProtocols);
  port.port = RandomPort(dice);
  port.addresses.resize(dice.Below(4));
  for (ReachedAt& at : port.addresses) {
    at = {.address = RandomIp(dice, port.family),
          .port = RandomPort(dice),
          .kind = static_cast<DispatchKind>(dice.Below(4)),
          .firewalled = dice.Chance(50)};
    at.node_port = at.port % 2 == 0;
  }
  port.any = dice.Chance(50);
  port.internal_local = dice.Chance(50);
  port.cluster = {static_cast<uint32_t>(dice.Number()), RandomEndpoints(dice, port.family, 5)};
  port.local = {static_cast<uint32_t>(dice.Below(100)), RandomEndpoints(dice, port.family, 2)};
  port.hairpins = RandomEndpoints(dice, port.family, 2);
  if (port.port % 8 == 0) {
    port.pick_by = port.port % 16 == 0 ? PickBy::kClient : PickBy::kClientAndPort;
    port.cluster.slots.assign(
        port.port % 128 == 0 ? 251 : 0,
        {port.addresses.empty() ? IpAddress() : port.addresses[0].address, 80});
    port.local.slots.clear();
  }
  if (dice.Chance(50)) {
    Affinity& affinity = port.affinity.emplace();
    affinity.timer = static_cast<uint8_t>(dice.Below(256));
    affinity.port_number = static_cast<uint32_t>(dice.Number());
    affinity.last_number = RandomPort(dice);
    for (const EndpointAddress& endpoint : RandomEndpoints(dice, port.family, 5)) {
      affinity.endpoints.push_back({endpoint, RandomPort(dice)});
    }
  }
  if (port.port % 3 == 1) port.end_port = static_cast<uint16_t>(port.port | 0x3ff);
  return port;
}

inline ServiceRows RandomServiceRows(Dice& dice) {
  ServiceRows rows;
  rows.cluster_ips = {RandomIp(dice, kFamilies[dice.Below(2)])};
  if (dice.Chance(50)) rows.cluster_ips.push_back(RandomIp(dice, kFamilies[dice.Below(2)]));
  for (size_t i = dice.Below(3); i > 0; --i) {
    rows.ping_addresses.push_back(RandomIp(dice, kFamilies[dice.Below(2)]));
  }
  rows.tcp_resets = static_cast<TcpResets>(dice.Below(3));
  for (size_t i = dice.Below(3); i > 0; --i) {
    const Family family = kFamilies[dice.Below(2)];
    rows.sources.push_back({RandomIp(dice, family), RandomIp(dice, family)});
  }
  for (size_t i = dice.Below(4); i > 0; --i) rows.ports.push_back(RandomPortRows(dice));
  return rows;
}

inline nft::FieldBytes RandomField(Dice& dice) {
  uint8_t bytes[nft::FieldBytes::kMaxSize];
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(dice.Below(256));
  return nft::FieldBytes().Append({bytes, dice.Below(sizeof(bytes) + 1)});
}

inline std::vector<Row> RandomRows(Dice& dice) {
  std::vector<Row> rows(dice.Below(4));
  for (Row& row : rows) {
    row.set = {kFamilies[dice.Below(2)], static_cast<uint8_t>(dice.Below(kRowSetCount))};
    row.key = RandomField(dice);
    row.data = RandomField(dice);
    row.comment = std::string(dice.Below(3), 'c');
    row.interval_end = dice.Chance(50);
    row.key_end = RandomField(dice);
  }
  return rows;
}

inline SavedTables RandomTables(Dice& dice) {
  SavedTables tables{.ruleset = dice.Number()};
  const auto numbers = [&] {
    std::vector<uint32_t> values(dice.Below(4));
    for (uint32_t& value : values) value = static_cast<uint32_t>(dice.Number());
    return values;
  };
  tables.timers = numbers();
  return tables;
}

// A saved state in comparable form. Lists whose order is not significant are sorted.
struct Content {
  using RowTuple = std::tuple<int, int, std::string, std::string, std::string, bool, std::string>;

  // Message and ServiceEntry::first_seen by kind and key.
  std::map<std::pair<Kind, std::string>, std::pair<std::string, uint64_t>> objects;
  bool partial = false;
  std::optional<Marker> marker;
  std::optional<uint32_t> generation;
  std::map<std::string, ServiceRows> services;
  std::vector<RowTuple> node_rows;
  SavedTables tables;
  NextNumbers next_numbers = {};

  friend bool operator==(const Content&, const Content&) = default;
};

inline std::vector<Content::RowTuple> Comparable(const std::vector<Row>& rows) {
  std::vector<Content::RowTuple> tuples;
  const auto text = [](const nft::FieldBytes& field) {
    return std::string(field.bytes().begin(), field.bytes().end());
  };
  for (const Row& row : rows) {
    tuples.emplace_back(static_cast<int>(row.set.family), row.set.set, text(row.key),
                        text(row.data), row.comment, row.interval_end, text(row.key_end));
  }
  return tuples;
}

// Returns the content of the state without the open attempt.
inline Content ContentOf(const SavedState& state) {
  Content content{.partial = state.partial,
                  .marker = state.marker,
                  .generation = state.generation,
                  .node_rows = Comparable(state.node_rows),
                  .tables = state.tables,
                  .next_numbers = state.next_numbers};
  for (const SavedState::Object& object : state.objects) {
    const std::pair value = {object.message, object.first_seen};
    EXPECT_TRUE(content.objects.try_emplace({object.kind, object.key}, value).second);
  }
  for (const auto& [key, rows] : state.services) {
    EXPECT_FALSE(rows.empty()) << key;
    EXPECT_TRUE(content.services.try_emplace(key, rows).second) << key;
  }
  return content;
}

// Content of a state file: the current state, and the state after the open attempt if this attempt
// was committed.
struct Reported {
  Content is;
  std::optional<Content> may_be;

  friend bool operator==(const Reported&, const Reported&) = default;
};

inline Reported SaidBy(SavedState state) {
  Reported reported{.is = ContentOf(state)};
  if (!state.attempt) return reported;
  Resolve(state, true);
  EXPECT_FALSE(state.attempt.has_value());
  reported.may_be = ContentOf(state);
  return reported;
}

inline void PrintTo(const Reported& reported, std::ostream* out) {
  const auto print = [out](const Content& content) {
    *out << content.objects.size() << " objects, " << content.services.size() << " Services"
         << (content.partial ? ", partial" : "") << ", marker "
         << (content.marker ? std::to_string(content.marker->generation) : "none")
         << ", generation "
         << (content.generation ? std::to_string(*content.generation) : "unknown");
  };
  print(reported.is);
  if (!reported.may_be) return;
  *out << "; perhaps ";
  print(*reported.may_be);
}

// A commit that owns its data.
struct OwnedCommit {
  Marker marker;
  bool whole = false;
  std::map<std::string, ServiceRows> services;
  std::optional<std::vector<Row>> node_rows;
  std::optional<SavedTables> tables;
  NextNumbers next_numbers = {};

  SavedCommit Borrow() const {
    SavedCommit commit{.marker = marker, .whole = whole, .next_numbers = next_numbers};
    for (const auto& [key, rows] : services) commit.services.emplace_back(key, &rows);
    if (node_rows) commit.node_rows = &*node_rows;
    if (tables) commit.tables = &*tables;
    return commit;
  }
};

// Receives the same calls as the log. reported() returns the expected content of the log's file
// after the last call.
class Model {
 public:
  const Reported& reported() const { return reported_; }
  bool open() const { return reported_.may_be.has_value(); }

  // Initializes the model with the state that the log found in its file.
  void StartFrom(const Reported& reported) {
    reported_ = reported;
    buffered_.clear();
    partial_.reset();
    noted_.reset();
  }

  void PutObject(Kind kind, const std::string& key, const std::string& message,
                 uint64_t first_seen) {
    buffered_.push_back({{kind, key}, {{message, first_seen}}});
  }
  void RemoveObject(Kind kind, const std::string& key) {
    buffered_.push_back({{kind, key}, std::nullopt});
  }
  void SetPartial(bool partial) {
    if (partial_.value_or(reported_.is.partial) != partial) partial_ = partial;
  }
  void Flush() {
    if (!buffered_.empty() || partial_) Write();
  }
  void Begin(const OwnedCommit& commit) {
    Write();
    for (size_t pool = 0; pool < commit.next_numbers.size(); ++pool) {
      for (const size_t family : {0, 1}) {
        uint32_t& next = reported_.is.next_numbers[pool][family];
        next = std::max(next, commit.next_numbers[pool][family]);
      }
    }
    Content next = reported_.is;
    next.marker = commit.marker;
    if (next.generation) ++*next.generation;
    if (commit.whole) {
      next.services.clear();
      next.node_rows.clear();
      next.tables = {};
    }
    for (const auto& [key, rows] : commit.services) {
      next.services.erase(key);
      if (!rows.empty()) next.services.emplace(key, rows);
    }
    if (commit.node_rows) next.node_rows = Comparable(*commit.node_rows);
    if (commit.tables) next.tables = *commit.tables;
    reported_.may_be = std::move(next);
  }
  void End(bool committed, std::optional<uint32_t> generation) {
    noted_.reset();
    if (committed) reported_.is = *reported_.may_be;
    reported_.may_be.reset();
    reported_.is.generation = generation;
    Write();
  }
  void NoteGeneration(uint32_t generation) { noted_ = generation; }
  void Sync() {
    if (!noted_) return;
    reported_.is.generation = std::exchange(noted_, std::nullopt);
    if (reported_.may_be) reported_.may_be->generation = *reported_.is.generation + 1;
  }

 private:
  struct Object {
    std::pair<Kind, std::string> key;
    std::optional<std::pair<std::string, uint64_t>> value;  // Absent if the object was removed.
  };

  void Write() {
    Sync();
    for (Content* content : {&reported_.is, reported_.may_be ? &*reported_.may_be : nullptr}) {
      if (content == nullptr) continue;
      content->partial = partial_.value_or(content->partial);
      for (const Object& object : buffered_) {
        content->objects.erase(object.key);
        if (object.value) content->objects.emplace(object.key, *object.value);
      }
    }
    buffered_.clear();
    partial_.reset();
  }

  Reported reported_;
  std::vector<Object> buffered_;
  std::optional<bool> partial_;  // Buffered.
  std::optional<uint32_t> noted_;
};

// A log with in-memory files and without a background thread, and a model of the log.
class SavedWorld {
 public:
  static constexpr char kFolder[] = "/var/lib/svcmap";
  static constexpr char kPath[] = "/var/lib/svcmap/state";

  explicit SavedWorld(uint64_t seed = 1) : dice(seed) {}
  // Removes the fault plan, because the plan may refer to objects that are already destroyed.
  ~SavedWorld() { files.SetPlan(nullptr); }

  StateLogOptions Options() {
    return {.writer = "test",
            .first_retry = std::chrono::milliseconds(0),
            .last_retry = std::chrono::milliseconds(0),
            .compact_above = compact_above,
            .own_thread = false,
            .on_problem = [this](const std::string& line) { problems.push_back(line); },
            .on_recovery = [this] { ++recoveries; }};
  }

  // Opens the log and initializes the model with the state that the log found.
  Reported Open() {
    SavedState found;
    auto opened = StateLog::Open(kFolder, files, &found, Options());
    EXPECT_TRUE(opened.ok()) << opened.status();
    if (opened.ok()) log = *std::move(opened);
    const Reported reported = SaidBy(std::move(found));
    model.StartFrom(reported);
    return reported;
  }
  // Returns the state that a new run would find, without changing the files.
  Reported FoundIn(const MemoryFiles& others) {
    if (const auto content = others.Content(kPath)) files.SetContent(kPath, *content);
    return Open();
  }
  // Kills the process and restarts it.
  Reported Reopen() {
    Kill();
    return Open();
  }
  void Kill() {
    files.Restart();
    DiscardProblems();
  }
  Reported ReopenAfterPowerLoss() {
    files.PowerLoss(dice);
    DiscardProblems();
    return Open();
  }
  void Stop() {
    log->Stop();
    log.reset();
    model.Flush();
    model.Sync();
  }

  OwnedCommit RandomCommit() {
    OwnedCommit commit{.marker = {dice.Number(), ++generation}, .whole = dice.Chance(10)};
    for (size_t i = dice.Below(4); i > 0; --i) {
      ServiceRows rows;
      if (dice.Chance(75)) rows = RandomServiceRows(dice);
      commit.services[RandomKey()] = std::move(rows);
    }
    if (commit.whole || dice.Chance(20)) commit.node_rows = RandomRows(dice);
    if (commit.whole || dice.Chance(20)) commit.tables = RandomTables(dice);
    for (auto& families : commit.next_numbers) {
      for (uint32_t& next : families) next = static_cast<uint32_t>(dice.Number());
    }
    return commit;
  }
  std::string RandomKey() { return "ns/" + std::to_string(dice.Below(12)); }

  // Each of the following methods calls the same method of the log and of the model.
  void PutObject(Kind kind, const std::string& key, const std::string& message,
                 uint64_t first_seen = 0) {
    log->PutObject(kind, key, message, first_seen);
    model.PutObject(kind, key, message, first_seen);
  }
  void RemoveObject(Kind kind, const std::string& key) {
    log->RemoveObject(kind, key);
    model.RemoveObject(kind, key);
  }
  void SetPartial(bool partial) {
    log->SetPartial(partial);
    model.SetPartial(partial);
  }
  void Flush() {
    log->Flush();
    model.Flush();
  }
  void Begin(const OwnedCommit& commit) {
    log->Begin(commit.Borrow());
    model.Begin(commit);
  }
  // Also writes the outcome. Without Flush, the next attempt would write it.
  void End(bool committed, std::optional<uint32_t> generation) {
    log->End(committed, generation);
    log->Flush();
    model.End(committed, generation);
  }
  void NoteGeneration(uint32_t number) {
    log->NoteGeneration(number);
    model.NoteGeneration(number);
  }
  void Work() {
    log->Work();
    model.Sync();
  }

  void RandomObjectChange() {
    if (dice.Chance(10)) SetPartial(dice.Chance(50));
    const Kind kind = static_cast<Kind>(dice.Below(4));
    if (dice.Chance(25)) return RemoveObject(kind, RandomKey());
    PutObject(kind, RandomKey(), std::string(dice.Below(200), static_cast<char>(dice.Below(256))),
              dice.Below(1000));
  }
  std::optional<uint32_t> RandomGeneration() {
    if (dice.Chance(20)) return std::nullopt;
    return static_cast<uint32_t>(dice.Number());
  }
  // Makes a random call, or several calls of which the last call is a Begin without an End.
  void RandomStep() {
    if (dice.Chance(10)) NoteGeneration(static_cast<uint32_t>(dice.Number()));
    if (model.open()) return End(dice.Chance(70), RandomGeneration());
    for (size_t i = dice.Below(3); i > 0; --i) RandomObjectChange();
    switch (dice.Below(10)) {
      case 0:
        return Flush();
      case 1:
      case 2:
        return Work();
      default:
        return Begin(RandomCommit());
    }
  }

  // Rewrites the log with the model's state, as the log's caller does. Calls `meanwhile` during the
  // rewrite.
  void Rewrite(const std::function<void()>& meanwhile = nullptr) {
    model.Flush();
    model.Sync();
    const Reported reported = model.reported();
    std::vector<Row> node_rows;
    for (const auto& [family, set, key, data, comment, interval_end, key_end] :
         reported.is.node_rows) {
      const auto field = [](const std::string& bytes) {
        return nft::FieldBytes().Append(
            {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
      };
      node_rows.push_back({.set = {static_cast<Family>(family), static_cast<uint8_t>(set)},
                           .key = field(key),
                           .data = field(data),
                           .comment = comment,
                           .interval_end = interval_end,
                           .key_end = field(key_end)});
    }
    OwnedCommit commit{.marker = reported.is.marker.value_or(Marker()),
                       .whole = true,
                       .services = reported.is.services,
                       .node_rows = node_rows,
                       .tables = reported.is.tables,
                       .next_numbers = reported.is.next_numbers};
    const SavedCommit borrowed = commit.Borrow();
    log->Rewrite(
        [&](const StateLog::PutObjectFn& put) {
          for (const auto& [key, value] : reported.is.objects)
            put(key.first, key.second, value.first, value.second);
          if (meanwhile) meanwhile();
        },
        reported.is.marker ? &borrowed : nullptr, reported.is.generation);
  }

  // Disables the log by an invalid call. The model does not receive the invalid call.
  void PutOutOfOrder() {
    log->Begin({});
    log->Begin({});
  }

  // Discards problems that a killed process reported.
  void DiscardProblems() {
    const std::vector<std::string> reported = problems;
    log.reset();
    problems = reported;
  }

  MemoryFiles files;
  Dice dice;
  Model model;
  uint64_t compact_above = uint64_t{4} << 20;
  uint64_t generation = 0;
  std::vector<std::string> problems;
  int recoveries = 0;
  std::unique_ptr<StateLog> log;  // The log must be the last member, because it uses the files.
};

}  // namespace svcmap::proxy::test
