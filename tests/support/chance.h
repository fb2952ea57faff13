// Numbers of tries and bounds for assertions about random choices, for example endpoint picks.
//
//   const Tally tally = AskMany(client, request, TriesToReachAll(3));
//   EXPECT_EQ(tally.by_server.size(), 3u);
#pragma once

namespace svcmap::testing {

// The maximum probability that an assertion with these bounds fails although the choices are
// random. A run of all tests makes fewer than 1,000 such assertions, so at most one of 1e9 runs
// fails by chance.
inline constexpr double kFalseFailure = 1e-12;

// Returns the number of tries after which each of `outcomes` equally probable outcomes has
// occurred.
int TriesToReachAll(int outcomes);
// Returns the number of tries after which each of `outcomes` outcomes has occurred, if each try has
// each outcome with a probability of at least `rarest`.
int TriesToReachAll(int outcomes, double rarest, double false_failure = kFalseFailure);

// Returns the maximum difference between `tries * share` and the number of tries that have an
// outcome of probability `share`.
int ToleranceOfCount(int tries, double share, double false_failure = kFalseFailure);

// Returns the maximum of a chi-square statistic with `degrees` degrees of freedom. If all expected
// counts are at least 20, the statistic of random counts exceeds the bound with a probability below
// 4 * `false_failure` (calculated for 3 to 1,000 counts and 1e-12).
double ChiSquareBound(int degrees, double false_failure = kFalseFailure);

}  // namespace svcmap::testing
