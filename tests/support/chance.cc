#include "tests/support/chance.h"

#include <cmath>

namespace svcmap::testing {
namespace {

// Returns the Kullback-Leibler divergence of a choice of probability `share` from a choice of
// probability `seen`.
double Divergence(double seen, double share) {
  const auto term = [](double a, double b) { return a == 0 ? 0 : a * std::log(a / b); };
  return term(seen, share) + term(1 - seen, 1 - share);
}

}  // namespace

int TriesToReachAll(int outcomes) { return TriesToReachAll(outcomes, 1.0 / outcomes); }

// The probability that some outcome is missing is at most outcomes * (1 - rarest)^tries.
int TriesToReachAll(int outcomes, double rarest, double false_failure) {
  if (rarest >= 1) return 1;
  return static_cast<int>(std::ceil(std::log(false_failure / outcomes) / std::log1p(-rarest)));
}

// Chernoff's bound: the probability of a count of at least (at most) tries * seen is at most
// exp(-tries * Divergence(seen, share)).
int ToleranceOfCount(int tries, double share, double false_failure) {
  const double needed = -std::log(false_failure / 2) / tries;
  const auto is_improbable = [&](double seen) {
    return seen < 0 || seen > 1 || Divergence(seen, share) >= needed;
  };
  for (int tolerance = 0;; ++tolerance) {
    const double excess = (tolerance + 1.0) / tries;
    if (is_improbable(share - excess) && is_improbable(share + excess)) return tolerance;
  }
}

// Chernoff's bound: the probability of a value of at least degrees * ratio is at most
// exp(-degrees / 2 * (ratio - 1 - log(ratio))).
double ChiSquareBound(int degrees, double false_failure) {
  const double needed = -2 * std::log(false_failure) / degrees;
  double low = 1, high = 2 + 2 * needed;  // The function exceeds `needed` at `high`.
  for (int i = 0; i < 60; ++i) {
    const double ratio = (low + high) / 2;
    (ratio - 1 - std::log(ratio) < needed ? low : high) = ratio;
  }
  return degrees * high;
}

}  // namespace svcmap::testing
