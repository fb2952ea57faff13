// Files whose calls return after a bounded time even if the disk does not answer.
//
// A write to a hung disk blocks its thread in the kernel, and nothing can end it. Each call
// therefore runs on a worker thread. A call that takes longer than its limit fails with
// kDeadlineExceeded and leaves its worker behind. Until that worker returns, all calls fail at
// once, so at most a few threads ever wait for a hung disk.
#pragma once

#include <chrono>
#include <memory>

#include "proxy/saved/files.h"

namespace svcmap::proxy {

struct BoundedFilesLimits {
  std::chrono::milliseconds write{1000};  // Append, rename, remove. The reconcile loop waits.
  std::chrono::milliseconds sync{30000};  // Only the background thread waits.
  std::chrono::milliseconds other{5000};
};

// `files` must exist as long as the process.
std::unique_ptr<Files> MakeBoundedFiles(Files& files, BoundedFilesLimits limits = {});

}  // namespace svcmap::proxy
