// Resources that a part of a run uses, and the tables of svcmap-bench-fleet.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace svcmap::bench {

// Resources that were used during a part of the run.
struct Usage {
  double seconds = 0, server_cpu = 0, own_cpu = 0, megabytes = 0;
  double server_before_mb = 0, server_peak_mb = 0;
};

// Measures the resources of a server, of this process and of the loopback interface.
class Meter {
 public:
  explicit Meter(pid_t server);
  Usage Used() const;  // Since the constructor.

 private:
  const pid_t server_;
  Usage start_;
};

double RssMb(pid_t server);

struct Results {
  Usage cold, changes, back;
  // Milliseconds since the write was sent, for each change.
  std::vector<double> answered, p50, p99, last;
  double rss_mb = 0;  // RSS of the server after the changes.
};

// Prints the beginning of a table.
void PrintHeader(const std::string& title, const std::string& first, const std::string& second);
// A row "| name | first | second | ratio of the second to the first |".
void PrintRow(const std::string& name, double first, double second);
// Prints the rows of the measured changes. The counts are those of the watches or nodes.
void PrintChanges(const Results& first, int first_count, const Results& second, int second_count);
void PrintUsage(const std::string& phase, const Usage& first, const Usage& second);

}  // namespace svcmap::bench
