#include "shell/one_off.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <utility>

#include "base/error.h"
#include "shell/deadline.h"
#include "shell/environment.h"

namespace rex::shell {
namespace {

constexpr std::size_t pump_bytes = 256 * 1024;
constexpr std::int32_t step_grace_ms = 2000;

Fd null_device(int flags) {
  Fd fd(open("/dev/null", flags | O_CLOEXEC));
  if (!fd) {
    throw os_error("cannot open", errno, "/dev/null");
  }
  return fd;
}

/// One output of the process: its pipe and what was collected from it.
struct Output {
  Output(Executor executor, Fd fd, std::size_t max_bytes)
      : pipe(executor, std::move(fd)), text(View::raw, max_bytes, 0) {}

  /// Takes what is there; false at the end.
  bool take() {
    return drain(pipe.fd(), pump_bytes, [this](std::string_view bytes) { text.feed(bytes); });
  }

  AsyncFd pipe;
  OutputText text;
};

Task<> pump(std::shared_ptr<Output> output) {
  while (co_await output->pipe.readable() && output->take()) {
  }
}

Task<> feed(std::shared_ptr<AsyncFd> pipe, std::string input) {
  std::size_t done = 0;
  while (done < input.size()) {
    const ssize_t n = write(pipe->fd(), input.data() + done, input.size() - done);
    if (n > 0) {
      done += static_cast<std::size_t>(n);
    } else if (errno == EAGAIN) {
      if (!co_await pipe->writable()) {
        co_return;
      }
    } else if (errno != EINTR) {
      break;  // the process closed its input: its own affair
    }
  }
  pipe->close();
}

Task<> end_tree(std::shared_ptr<Program> program) {
  std::vector<EndStep> steps{{SIGINT, step_grace_ms}, {SIGTERM, step_grace_ms}};
  co_await program->end_tree(std::move(steps));
}

}  // namespace

Task<ProcessResult> run_process(Executor executor, Nursery& nursery, ProcessOptions options, Cancel& cancel) {
  const TimePoint begin = Clock::now();
  Pipe in;
  Fd null;
  if (options.input.empty()) {
    null = null_device(O_RDONLY);
  } else {
    in = make_pipe();
  }
  Pipe out = make_pipe();
  Pipe err;
  if (!options.merge_stderr) {
    err = make_pipe();
  }
  Launch launch;
  launch.argv = std::move(options.argv);
  launch.env = make_environment(options.clear_env, options.env, std::nullopt);
  launch.cwd = std::move(options.cwd);
  launch.limits = rlimits_for(options.limits);
  const int in_fd = null ? null.get() : in.read.get();
  const int err_fd = options.merge_stderr ? out.write.get() : err.write.get();
  const std::shared_ptr<Program> program =
      co_await Program::start(executor, nursery, std::move(launch), in_fd, out.write.get(), err_fd);
  in.read.reset();
  out.write.reset();
  err.write.reset();

  const auto output = std::make_shared<Output>(executor, std::move(out.read), options.max_output_bytes);
  spawn(executor, pump(output));
  std::shared_ptr<Output> errors;
  if (!options.merge_stderr) {
    errors = std::make_shared<Output>(executor, std::move(err.read), options.max_output_bytes);
    spawn(executor, pump(errors));
  }
  std::shared_ptr<AsyncFd> input;
  if (!options.input.empty()) {
    input = std::make_shared<AsyncFd>(executor, std::move(in.write));
    spawn(executor, feed(input, std::move(options.input)));
  }

  Waiter waiter(executor);
  waiter.subscribe(program->exited());
  waiter.subscribe(cancel.changed());
  Deadline deadline(deadline_after(options.timeout));
  std::optional<ProcessState> stopped;
  while (!program->ended() && !stopped) {
    if (cancel.wish() == Cancel::Wish::stop_work) {
      stopped = ProcessState::cancelled;
    } else if (cancel) {
      stopped = ProcessState::left;
    } else if (deadline.has_passed()) {
      stopped = ProcessState::timed_out;
    } else {
      co_await waiter.until(deadline.at());
    }
  }
  if (stopped && *stopped != ProcessState::left) {
    co_await end_tree(program);
  }

  // What the process wrote is in the pipes by now; what a child that lives on adds later is not waited for.
  output->take();
  output->pipe.close();
  if (errors) {
    errors->take();
    errors->pipe.close();
  }
  if (input) {
    input->close();
  }
  ProcessResult result{};
  if (program->exit()) {
    const ProgramExit& exit = *program->exit();
    result.exit_code = exit.exit_code();
    result.signal = exit.signal();
    result.core_dumped = exit.core_dumped();
    result.usage = exit.usage;
  }
  const ProcessState ended = result.signal      ? ProcessState::signaled
                             : result.exit_code ? ProcessState::exited
                                                : ProcessState::lost;
  result.state = stopped.value_or(ended);
  result.out = output->text.finish();
  if (errors) {
    result.err = errors->text.finish();
  }
  result.duration_ms = milliseconds_since(begin);
  result.survivors = name_processes(program->tree());
  program->release();  // survivors of a one-off process are named and live on: `server &` is a way to start one
  co_return result;
}

}  // namespace rex::shell
