#include "proxy/explain/sources.h"

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "proxy/desired/node_rows.h"

namespace svcmap::proxy {
namespace {

class Sorter {
 public:
  Sorter(const ExplainContext& context, const Question& question)
      : context_(context),
        question_(question),
        family_(question.destination.family()),
        pod_block_(PodBlock(context.ruleset, context.this_node, family_)),
        pod_interface_(context.ruleset.interface) {}

  std::vector<Source> Sort() const {
    switch (question_.from) {
      case Question::From::kAddress:
        return OfAddress(question_.source);
      case Question::From::kNode:
        return {OfNode()};
      case Question::From::kAnybody:
        break;
    }
    if (question_.destination.IsLoopback()) return {OfNode()};  // Others cannot reach it.
    if (by_interface() && !question_.in_interface.empty()) return {ByInterface(std::nullopt)};
    if (!RecognisesPods(context_, family_)) return {OfNode(), Other(std::nullopt)};
    return {Pod(std::nullopt), OfNode(), Other(std::nullopt)};
  }

 private:
  bool by_interface() const { return context_.ruleset.detect_local == DetectLocal::kInterface; }

  bool IsPodInterface(std::string_view name) const {
    return IsPrefix() ? name.starts_with(pod_interface_.substr(0, pod_interface_.size() - 1))
                      : name == pod_interface_;
  }

  bool IsPrefix() const { return pod_interface_.ends_with('*'); }

  bool InPodBlock(const IpAddress& address) const {
    return pod_block_ && pod_block_->Contains(address);
  }

  // The rules test for pod addresses before node addresses (S-73).
  std::vector<Source> OfAddress(const IpAddress& address) const {
    const bool local = IsLocal(context_, address);
    if (InPodBlock(address)) return {Pod(address, local && question_.in_interface.empty())};
    if (!question_.in_interface.empty()) return {ByInterface(address)};
    if (local) return {Local(address)};
    if (by_interface()) return {Pod(address), Other(address)};
    return {Other(address)};
  }

  Source OfNode() const {
    const IpAddress& own = context_.node.own_ip[Index(family_)];
    // A loopback address means that the node IP is unknown.
    if (own.IsLoopback()) return Local(std::nullopt);
    return InPodBlock(own) ? Pod(own, /*from_process=*/true) : Local(own);
  }

  Source ByInterface(const std::optional<IpAddress>& address) const {
    if (by_interface() && IsPodInterface(question_.in_interface)) return Pod(address);
    if (!address || !IsLocal(context_, *address)) return Other(address);
    Source source = Local(address);
    source.from_process = false;
    return source;
  }

  Source Pod(const std::optional<IpAddress>& address, bool from_process = false) const {
    Source source{SourceKind::kPod, address, from_process};
    source.name = address ? address->ToString() + ", a pod" : "a pod";
    if (by_interface()) {
      if (address && question_.in_interface.empty()) {
        absl::StrAppend(&source.name, " if the packet arrives on ", pod_interface_);
      }
      source.step = {
          "source",
          "the packet arrives on interface " + pod_interface_ + ", so the source is a pod",
          InterfaceRule()};
    } else {
      source.step = {"source",
                     "the source address is in pod CIDR " + pod_block_->ToString() +
                         ", so the source is a pod",
                     "S-64, S-65"};
    }
    return source;
  }

  Source Local(const std::optional<IpAddress>& address) const {
    return {SourceKind::kNode,
            address,
            /*from_process=*/true,
            address ? address->ToString() + ", this node" : "this node",
            {"source", "the source address belongs to this node",
             by_interface() ? "S-70, S-72" : "S-72"}};
  }

  Source Other(const std::optional<IpAddress>& address) const {
    Source source{SourceKind::kOther, address};
    source.name = address ? address->ToString() + ", neither a pod nor this node" : "other sources";
    if (!RecognisesPods(context_, family_)) {
      source.name =
          address ? address->ToString() + ", not this node" : "other sources, including pods";
      source.step = {
          "source",
          "the source address does not belong to this node; pods cannot be detected because no " +
              std::string(FamilyName(family_)) + " pod CIDR is known",
          "S-71"};
    } else if (by_interface()) {
      if (address && question_.in_interface.empty()) {
        source.name = address->ToString() + " if the packet arrives on another interface";
      }
      source.step = {
          "source",
          "the packet does not arrive on interface " + pod_interface_ +
              ", and the source address does not belong to this node, so the source is not a pod",
          InterfaceRule()};
    } else {
      source.step = {"source",
                     "the source address is neither in pod CIDR " + pod_block_->ToString() +
                         " nor an address of this node",
                     "S-64, S-65"};
    }
    return source;
  }

  std::string InterfaceRule() const { return IsPrefix() ? "S-67" : "S-66"; }

  const ExplainContext& context_;
  const Question& question_;
  const Family family_;
  const std::optional<IpPrefix> pod_block_;
  const std::string& pod_interface_;  // "cni0", "veth*"
};

}  // namespace

bool RecognisesPods(const ExplainContext& context, Family family) {
  return context.ruleset.detect_local == DetectLocal::kInterface ||
         PodBlock(context.ruleset, context.this_node, family).has_value();
}

bool IsLocal(const ExplainContext& context, const IpAddress& address) {
  return address.IsLoopback() || absl::c_linear_search(context.interface_addresses, address);
}

std::vector<Source> SourcesOf(const ExplainContext& context, const Question& question) {
  return Sorter(context, question).Sort();
}

}  // namespace svcmap::proxy
