// svcmapctl as a function, for main() and for tests.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

namespace svcmap::api {

// Runs one command line (`args` without the program's name) and gives the exit code. Reads
// $SVCMAP_ADDRESS. When `out` fails, listings end early and everything else goes on.
int Run(const std::vector<std::string>& args, std::istream& in, std::ostream& out,
        std::ostream& err);

}  // namespace svcmap::api
