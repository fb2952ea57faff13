#include "api/process/fatal.h"

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <system_error>

namespace svcmap::api {
namespace {

const char* program_name = "";

// Allocates no memory and takes no lock, because the calling thread may hold the logger's lock.
void WriteLine(const char* error) {
  for (const char* part : {program_name, ": exiting error=\"", error, "\"\n"}) {
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, part, strlen(part));
  }
}

[[noreturn]] void OutOfMemory() {
  WriteLine("out of memory: the memory limit of the process or of its cgroup is too low");
  _exit(1);
}

[[noreturn]] void Uncaught() {
  try {
    if (const std::exception_ptr exception = std::current_exception()) {
      std::rethrow_exception(exception);
    }
  } catch (const std::system_error& error) {
    if (error.code() == std::errc::resource_unavailable_try_again) {
      WriteLine("cannot start a thread: the memory limit or the process limit is too low");
      _exit(1);
    }
    WriteLine(error.what());
  } catch (const std::exception& error) {
    WriteLine(error.what());
  } catch (...) {
    WriteLine("unknown exception");
  }
  std::abort();
}

}  // namespace

void LogFatalErrors(const char* program) {
  program_name = program;
  std::set_new_handler(OutOfMemory);
  std::set_terminate(Uncaught);
}

}  // namespace svcmap::api
