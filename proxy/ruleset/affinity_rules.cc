#include "proxy/ruleset/affinity_rules.h"

#include <string>

#include "proxy/ruleset/descriptor.h"
#include "proxy/ruleset/sets.h"

namespace svcmap::proxy {
namespace {

using nft::KeyPart;
using Verdicts = std::vector<std::pair<uint8_t, std::string>>;

constexpr int kRepeatedAttempts = 2;

std::string ChooseChain(unsigned pick_class) {
  return "choose-" + std::to_string(PickCapacity(pick_class));
}

std::string ChooseRepickChain(unsigned pick_class) {
  return "choose-draw-" + std::to_string(PickCapacity(pick_class));
}

std::string TimerChain(const char* name, bool local, uint32_t seconds) {
  return std::string(name) + (local ? "-local-" : "-") + std::to_string(seconds);
}

void AddChooseRules(RuleList& rules) {
  Verdicts verdicts;
  for (unsigned pick = 1; pick <= kMaxPickClass; ++pick) {
    const std::string chain = ChooseChain(pick);
    verdicts.emplace_back(DescriptorByte(DispatchKind::kSticky, pick), chain);
    if (pick <= kMaxExactClass) {
      rules.In(chain).ChooseRandomSlot(PickCapacity(pick)).Return();
    } else {
      for (int i = 0; i < kSizeClassPicks; ++i) rules.In(chain).Jump(ChooseRepickChain(pick));
      rules.In(ChooseRepickChain(pick)).IsChosen().Return();
      rules.In(ChooseRepickChain(pick)).ChooseRandomSlot(PickCapacity(pick));
    }
    rules.In(chain).Goto("choose-first");
  }
  rules.In("choose").GotoByDestinationByte(0, verdicts);
  rules.In("choose").Drop();
  rules.In("choose-first").IsChosen().Return();
  rules.In("choose-first").ChooseRandomSlot(1).Return();
  rules.In("choose-first").Drop();
}

// Looks up the original destination in the order of the chain services.
void AddRestoreRules(const RulesetOptions& options, RuleList& rules) {
  const auto original = [](KeyPart port) {
    return nft::Key{KeyPart::kOriginalDestination, KeyPart::kProtocol, port};
  };
  const auto restore_from = [&](SetIndex map, KeyPart port, const std::string& prefix) {
    for (const std::string suffix : {"", "-local"}) {
      rules.In("restore" + suffix)
          .RewriteDestination(original(port), Named(map))
          .Goto(prefix + "restored" + suffix);
      rules.RepeatLast(Lookups(options));
    }
  };
  const auto restore_local_set = [&](const std::string& prefix) {
    rules.In(prefix + "restored-local")
        .RewriteDestination({KeyPart::kDestination}, Named(kLocalSets))
        .Goto(prefix + "restored");
    rules.RepeatLast(Lookups(options));
  };
  restore_from(kServiceIps, KeyPart::kDestinationPort, "");
  restore_local_set("");
  if (!options.port_ranges) return;
  restore_from(kRangePorts, KeyPart::kDestinationPort, "range-");
  restore_from(kRangeBlocks, KeyPart::kDestinationPortBlock, "range-");
  restore_local_set("range-");
}

void AddTimerRules(uint32_t seconds, bool local, bool port_ranges, RuleList& rules) {
  const std::string stick = TimerChain("stick", local, seconds);
  const std::string recall = TimerChain("recall", local, seconds);
  rules.In(stick).Jump("choose");
  rules.In(stick).Jump(recall);
  // The client's record may refer to a removed endpoint. A commit may also delete the endpoint that
  // the second attempt picked.
  for (int i = 0; i < kRepeatedAttempts; ++i) {
    rules.In(stick).Jump(local ? "restore-local" : "restore");
    rules.In(stick).Jump("choose");
    rules.In(stick).Jump(recall);
  }
  rules.In(stick).Drop();

  rules.In(recall).Remember(seconds);
  rules.In(recall).Recall();
  rules.In(recall).DnatToChoice(local ? kAffinityLocalEndpoints : kAffinityEndpoints);
  if (port_ranges) {
    rules.In(recall).DnatToChoice(local ? kRangeAffinityLocalEndpoints : kRangeAffinityEndpoints);
  }
  rules.In(recall).Forget();
}

}  // namespace

void AddAffinityRules(Family family, std::span<const uint32_t> timers,
                      const RulesetOptions& options, RuleList& rules) {
  // Uses few jumps between chains, because the kernel follows all paths when it validates the
  // table.
  const uint8_t sticky = DescriptorByte(DispatchKind::kSticky, 0);
  for (const auto& [kind, chain] : {std::pair{DispatchKind::kExternal, "external"},
                                    std::pair{DispatchKind::kExternalLocal, "external-local"}}) {
    rules.In("sticky")
        .DestinationIs(StickyPattern(family, sticky, kStickyKindMask),
                       StickyPattern(family, sticky, StickyByte(kind, {})))
        .Goto(chain);
  }
  rules.In("sticky").Goto("stick");

  // Adds one rule for each timeout, although a verdict map would be faster for many timeouts. With
  // a verdict map, a new timeout would replace an anonymous set. Packets that still evaluate the
  // old rule would then miss the elements of this set (Linux 6.18).
  const IpAddress not_kind = StickyPattern(family, 0, static_cast<uint8_t>(~kStickyKindMask));
  for (const bool local : {false, true}) {
    for (uint8_t timer = 1; timer < timers.size(); ++timer) {
      const uint8_t byte = StickyByte(DispatchKind::kInternal, {timer, local});
      rules.In("stick")
          .DestinationIs(not_kind, StickyPattern(family, 0, byte))
          .Goto(TimerChain("stick", local, timers[timer]));
    }
  }
  // The other descriptors use the first timeout. The commit that adds a timeout also adds
  // descriptors with its number, and a packet that still evaluates the previous rules can read
  // them.
  const uint8_t is_local = StickyByte(DispatchKind::kInternal, {0, true});
  rules.In("stick")
      .DestinationIs(StickyPattern(family, 0, is_local), StickyPattern(family, 0, is_local))
      .Goto(TimerChain("stick", true, timers[0]));
  rules.In("stick").Goto(TimerChain("stick", false, timers[0]));

  AddRestoreRules(options, rules);
  AddChooseRules(rules);
  for (const uint32_t seconds : timers) {
    for (const bool local : {false, true}) {
      AddTimerRules(seconds, local, options.port_ranges, rules);
    }
  }
}

}  // namespace svcmap::proxy
