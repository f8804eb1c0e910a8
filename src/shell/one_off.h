// A one-off process: run it, collect its two outputs, say how it ended. Ends when the process ends, whoever still
// holds its pipes. Knows no sessions and no JSON.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/async.h"
#include "shell/output_text.h"
#include "shell/program.h"

namespace rex::shell {

struct ProcessOptions {
  std::vector<std::string> argv;
  std::string cwd;
  std::map<std::string, std::optional<std::string>> env;
  bool clear_env = false;
  std::string input;
  std::optional<Milliseconds> timeout;
  bool merge_stderr = false;
  ResourceLimits limits;
  std::size_t max_output_bytes = OutputText::kDefaultMaxBytes;
};

/// cancelled: ended because the caller wished so; left: the caller no longer waits, and it runs on.
enum class ProcessState { exited, signaled, timed_out, cancelled, left, lost };

struct ProcessResult {
  ProcessState state;
  std::optional<int> exit_code;
  std::optional<int> signal;
  bool core_dumped = false;
  CollectedOutput out;  // raw bytes; head and tail of at most max_output_bytes each
  CollectedOutput err;
  std::int64_t duration_ms = 0;
  rusage usage{};
  std::vector<Process> survivors;
};

/// Throws StartFailed when it cannot be executed. After `timeout`, or when `cancel` asks for the work to stop, the
/// whole tree is interrupted, terminated and killed, 2 s a step.
Task<ProcessResult> run_process(Executor executor, Nursery& nursery, ProcessOptions options, Cancel& cancel);

}  // namespace rex::shell
