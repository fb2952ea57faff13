#include "nft/netlink/probe.h"

#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_conntrack.h>

#include <algorithm>
#include <cerrno>
#include <optional>

#include "absl/strings/ascii.h"
#include "nft/base/status.h"
#include "nft/netlink/answer.h"
#include "nft/netlink/batch.h"
#include "nft/netlink/dump.h"
#include "nft/netlink/messages.h"
#include "nft/netlink/socket.h"

namespace svcmap::nft {
namespace {

constexpr char kScratchTable[] = "svcmap-preflight";
constexpr char kScratchChain[] = "probe";
constexpr size_t kBatchEndSize = MNL_NLMSG_HDRLEN + sizeof(nfgenmsg);

enum class Comments : bool { kWithout, kWith };

// The first error in the kernel's response to a batch.
struct Rejection {
  std::string what;
  int error;
  bool whole = false;  // True if the error applies to the complete batch.
};

std::vector<uint8_t> Zeros(std::span<const Field> fields) {
  return std::vector<uint8_t>(FieldsSize(fields));
}

// Creates the table with one element in each set. Replaces an existing table of this name.
Transaction Creation(const TableSpec& table, Comments comments) {
  Transaction transaction;
  transaction.DropTable(table.family);
  transaction.CreateTable({table.family});
  for (size_t i = 0; i < table.sets.size(); ++i) {
    const SetSpec& set = table.sets[i];
    if (set.interval) continue;
    const std::vector<uint8_t> key = Zeros(set.key), data = Zeros(set.data);
    transaction.Add({.set = {table.family, static_cast<uint8_t>(i)},
                     .key = key,
                     .data = data,
                     .comment = comments == Comments::kWith ? kScratchTable : ""});
  }
  return transaction;
}

class Prober {
 public:
  explicit Prober(Socket socket) : socket_(std::move(socket)) {}

  // Returns nullopt if the kernel accepts the table.
  absl::StatusOr<std::optional<Rejection>> Try(TableSpec table, Comments comments);

 private:
  absl::StatusOr<std::optional<Rejection>> AwaitVerdict(const Batch& batch);

  Socket socket_;
  uint32_t sequence_ = 1;
};

absl::StatusOr<std::optional<Rejection>> Prober::Try(TableSpec table, Comments comments) {
  table.name = kScratchTable;
  const Transaction creation = Creation(table, comments);
  TableSpecs tables(kFamilies.size());
  tables[Index(table.family)] = std::move(table);
  Batch batch(tables, sequence_);
  batch.Append(creation);
  batch.Finish();
  sequence_ = batch.next_sequence();

  // Removes the end message, because the kernel commits a batch that has an end message. Returns an
  // error if the end message is not found.
  const std::span<const uint8_t> endless =
      batch.bytes().first(batch.bytes().size() - kBatchEndSize);
  const auto* end = reinterpret_cast<const nlmsghdr*>(endless.data() + endless.size());
  if (end->nlmsg_type != NFNL_MSG_BATCH_END || end->nlmsg_len != kBatchEndSize) {
    return absl::InternalError("nf_tables probe: the batch has no end message");
  }
  if (const absl::Status room = socket_.EnsureSendBuffer(endless.size()); !room.ok()) return room;
  if (const absl::Status sent = socket_.Send(endless); !sent.ok()) return sent;
  return AwaitVerdict(batch);
}

// Waits for the kernel's response to a batch. The kernel reports errors in the order of the
// messages, and then acknowledges the last message, even if it aborts the batch. If the kernel
// reports an error for the first message (batch begin), it sends no further responses.
absl::StatusOr<std::optional<Rejection>> Prober::AwaitVerdict(const Batch& batch) {
  std::optional<Rejection> rejection;
  for (;;) {
    const auto datagram = socket_.Receive(kAnswerTimeout);
    // Continues if the kernel sent more errors than the receive buffer can hold.
    if (absl::IsResourceExhausted(datagram.status())) continue;
    if (!datagram.ok()) return datagram.status();
    if (datagram->empty()) {
      if (rejection) return rejection;
      return ErrnoStatus(ETIMEDOUT, "wait for the nf_tables response to the probe");
    }
    for (const nlmsghdr* message : Messages(*datagram)) {
      const uint32_t sequence = message->nlmsg_seq;
      const bool ours =
          sequence - batch.first_sequence() < batch.next_sequence() - batch.first_sequence();
      if (!ours || message->nlmsg_type != NLMSG_ERROR ||
          mnl_nlmsg_get_payload_len(message) < sizeof(nlmsgerr)) {
        continue;
      }
      const int error = ErrorIn(message);
      const bool whole = sequence == batch.first_sequence();
      if (error != 0 && !rejection) rejection = {batch.Describe(sequence), error, whole};
      if (whole || sequence == batch.last_sequence()) return rejection;
    }
  }
}

struct Feature {
  std::string name;
  std::string option;
  std::string module;
};

// A small table that tests a single feature.
struct Piece {
  Feature feature;
  TableSpec table;
  Comments comments = Comments::kWithout;
};

// Returns a feature of nf_tables itself. If the module were missing, the kernel would reject the
// complete batch.
Feature Core(std::string name) { return {std::move(name), "", ""}; }

std::string PerFamily(const char* option, Family family) {
  return std::string(option) + (family == Family::kIpv4 ? "_IPV4" : "_IPV6");
}

// Returns the kernel feature that an expression needs. Returns nullopt for expressions that need a
// set or a chain. Supported kernels have all forms of them that the tables use.
struct FeatureOf {
  using Result = std::optional<Feature>;
  Family family;

  Result operator()(const PayloadLoad&) const { return Core("header fields"); }
  Result operator()(const AddressWrite&) const { return Core("header field rewriting"); }
  Result operator()(const NeutralWrite&) const { return Core("header field rewriting"); }
  Result operator()(const OriginalDestinationLoad&) const {
    return Module("connection state", "CT");
  }
  Result operator()(const RouteTypeLoad&) const { return Module("route look-ups", "FIB", true); }
  Result operator()(const DynamicElement&) const { return std::nullopt; }
  Result operator()(const MetaLoad&) const { return Core("packet metadata"); }
  Result operator()(const MetaSet&) const { return Core("setting the mark"); }
  Result operator()(const CtLoad&) const { return Module("connection state", "CT"); }
  Result operator()(const Compare&) const { return Core("comparisons"); }
  Result operator()(const Bitwise&) const { return Core("masks"); }
  Result operator()(const Lookup&) const { return std::nullopt; }
  Result operator()(const RandomNumber&) const { return Module("random numbers", "NUMGEN"); }
  Result operator()(const HashedNumber&) const { return Module("hashes", "HASH"); }
  Result operator()(const RateAbove&) const { return Module("rate limits", "LIMIT"); }
  Result operator()(const Verdict&) const { return std::nullopt; }
  Result operator()(const Dnat&) const { return Module("destination translation", "NAT"); }
  Result operator()(const Masquerade&) const { return Module("masquerade", "MASQ"); }
  Result operator()(const Reject&) const { return Module("reject", "REJECT", true); }

  // `name`: name of the kernel option after CONFIG_NFT_. The module has the same name.
  Feature Module(std::string feature, std::string name, bool per_family = false) const {
    if (per_family) name = PerFamily(name.c_str(), family);
    return {std::move(feature), "CONFIG_NFT_" + name, "nft_" + absl::AsciiStrToLower(name)};
  }
};

// Splits a table into pieces: one for each chain, set and kind of expression.
class Pieces {
 public:
  explicit Pieces(const TableSpec& table) : family_(table.family) {
    Add(Core("tables"), {});
    for (const ChainSpec& chain : table.chains) AddChain(chain);
    for (const SetSpec& set : table.sets) AddSet(set);
    Add(Core("element comments"), {.sets = {{.name = "probe", .key = {Field::kMark}}}},
        Comments::kWith);
    for (const RuleSpec& rule : table.rules) {
      for (const Expr& expr : rule.exprs) AddExpr(expr);
    }
  }

  std::vector<Piece> Take() { return std::move(pieces_); }

 private:
  void Add(Feature feature, TableSpec table, Comments comments = Comments::kWithout) {
    table.family = family_;
    pieces_.push_back({std::move(feature), std::move(table), comments});
  }

  void AddChain(const ChainSpec& chain) {
    if (chain.base && chain.base->type == "nat") {
      Add({"nat chains", "CONFIG_NFT_NAT", "nft_chain_nat"},
          {.chains = {{kScratchChain, "", chain.base}}});
    } else if (chain.base) {
      Add({"filter chains", PerFamily("CONFIG_NF_TABLES", family_), ""},
          {.chains = {{kScratchChain, "", chain.base}}});
    } else if (!chain.comment.empty()) {
      Add(Core("chain comments"), {.chains = {{kScratchChain, chain.comment, {}}}});
    }
  }

  void AddSet(const SetSpec& set) {
    const bool map = !set.data.empty();
    if (set.has_ranges()) {
      Add(Core("interval sets with concatenated keys"), {.sets = {set}});
    } else if (set.dynamic_size != 0) {
      Add(Core(map ? "dynamic maps" : "dynamic sets"), {.sets = {set}});
    } else if (set.interval) {
      Add(Core("interval sets"), {.sets = {set}});
    } else if (set.key.size() > 1) {
      Add(Core(map ? "maps with concatenated keys" : "sets with concatenated keys"),
          {.sets = {set}});
    } else {
      Add(Core(map ? "maps" : "sets"), {.sets = {set}});
    }
  }

  // Adds a rule that uses the expression. The rule first writes all registers, because newer
  // kernels reject reads from unwritten registers.
  void AddExpr(const Expr& expr) {
    std::optional<Feature> feature = std::visit(FeatureOf{family_}, expr);
    if (!feature) return;
    RuleSpec rule{.chain = kScratchChain};
    for (const uint32_t reg : {0, 4, 8, 12}) {
      rule.exprs.emplace_back(PayloadLoad{Header::kNetwork, 0, 16, reg});
    }
    rule.exprs.push_back(expr);

    const auto same = [&](const Piece& piece) { return piece.feature.name == feature->name; };
    auto piece = std::find_if(pieces_.begin(), pieces_.end(), same);
    if (piece == pieces_.end()) {
      Add(*std::move(feature), {.chains = {{kScratchChain, "", {}}}});
      piece = std::prev(pieces_.end());
    }
    piece->table.rules.push_back(std::move(rule));
  }

  const Family family_;
  std::vector<Piece> pieces_;
};

// Converts an error for the complete batch to a MissingFeature. The kernel rejects every batch with
// this error, so smaller tables need not be tested.
absl::StatusOr<MissingFeature> MissingForBatch(Family family, const Rejection& rejection) {
  if (rejection.error == EPERM || rejection.error == EACCES) {
    return absl::PermissionDeniedError(
        "programming nf_tables requires CAP_NET_ADMIN in this network namespace");
  }
  if (rejection.error == EOPNOTSUPP) {
    return MissingFeature{family, "nf_tables", "CONFIG_NF_TABLES", "nf_tables", rejection.error};
  }
  return ErrnoStatus(rejection.error, "probe nf_tables");
}

// Tests each piece of a rejected table to find the unsupported features.
absl::Status Narrow(Prober& prober, const TableSpec& table, const Rejection& whole_table,
                    std::vector<MissingFeature>& missing_features) {
  const size_t before = missing_features.size();
  for (Piece& piece : Pieces(table).Take()) {
    const auto known = [&](const MissingFeature& missing) {
      return missing.family == table.family && missing.feature == piece.feature.name;
    };
    if (std::any_of(missing_features.begin(), missing_features.end(), known)) continue;
    const absl::StatusOr<std::optional<Rejection>> rejection =
        prober.Try(std::move(piece.table), piece.comments);
    if (!rejection.ok()) return rejection.status();
    if (!*rejection) continue;
    missing_features.push_back({table.family, piece.feature.name, piece.feature.option,
                                piece.feature.module, (*rejection)->error});
  }
  if (missing_features.size() == before) {
    missing_features.push_back({table.family, whole_table.what, "", "", whole_table.error});
  }
  return absl::OkStatus();
}

// Tests whether the kernel lists tracked connections, which is required to delete stale UDP flows.
// If the module is missing, the kernel rejects all ctnetlink messages with EINVAL.
absl::Status ProbeConntrack(std::vector<MissingFeature>& missing_features) {
  absl::StatusOr<Socket> socket = Socket::Open(NETLINK_NETFILTER);
  if (!socket.ok()) return socket.status();
  alignas(nlmsghdr) uint8_t buffer[kBatchEndSize];
  nlmsghdr* request =
      PutRequest<nfgenmsg>(buffer, NFNL_SUBSYS_CTNETLINK << 8 | IPCTNL_MSG_CT_GET_STATS, NLM_F_ACK);
  request->nlmsg_seq = 1;
  const absl::Status status = DumpOnce(*socket, request, [](const nlmsghdr*) { return true; });
  if (!absl::IsInvalidArgument(status) && !absl::IsUnimplemented(status)) return status;
  for (const Family family : kFamilies) {
    missing_features.push_back({family, "deletion of tracked connections", "CONFIG_NF_CT_NETLINK",
                                "nf_conntrack_netlink", EINVAL});
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<MissingFeature>> FindMissingFeatures(const TableSpecs& tables) {
  absl::StatusOr<Socket> socket = Socket::Open(NETLINK_NETFILTER);
  if (absl::IsUnimplemented(socket.status())) {  // EPROTONOSUPPORT
    return std::vector<MissingFeature>{{Family::kIpv4, "netlink for netfilter",
                                        "CONFIG_NETFILTER_NETLINK", "nfnetlink", EPROTONOSUPPORT}};
  }
  if (!socket.ok()) return socket.status();
  Prober prober(*std::move(socket));
  std::vector<MissingFeature> missing_features;
  for (const TableSpec& table : tables) {
    const absl::StatusOr<std::optional<Rejection>> rejection = prober.Try(table, Comments::kWith);
    if (!rejection.ok()) return rejection.status();
    if (!*rejection) continue;
    if ((*rejection)->whole) {
      absl::StatusOr<MissingFeature> missing = MissingForBatch(table.family, **rejection);
      if (!missing.ok()) return missing.status();
      missing_features.push_back(*std::move(missing));
      continue;
    }
    const absl::Status status = Narrow(prober, table, **rejection, missing_features);
    if (!status.ok()) return status;
  }
  if (const absl::Status status = ProbeConntrack(missing_features); !status.ok()) return status;
  return missing_features;
}

}  // namespace svcmap::nft
