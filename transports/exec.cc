#include "transports/exec.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/encoding.h"
#include "base/error.h"
#include "transports/stdio.h"

namespace rex::transports {
namespace {

// The end of stderr that is kept, and how much of that is told.
constexpr std::size_t max_kept = 4 * 1024;
constexpr std::size_t max_told = 1024;

// How long a program whose transport was closed may take to end by itself, so that what it leads to ends in order too.
constexpr Milliseconds farewell{1000};
constexpr Milliseconds farewell_look{10};

// How long the end of its output waits for the program's own end, so that whoever sees the one can be told the other.
constexpr Milliseconds ending_patience{1000};

/// The end of what a program says on stderr.
class Complaints {
 public:
  Complaints(Executor executor, Fd pipe) : pipe_(std::make_unique<AsyncFd>(executor, std::move(pipe))) {}

  static Task<> collect(std::shared_ptr<Complaints> self) {
    while (self->pipe_ && co_await self->pipe_->readable() && self->take()) {
    }
    self->close();
  }

  /// What is kept may outlive the loop; the pipe may not. What it holds by then is taken first.
  void close() {
    take();
    pipe_.reset();
  }

  /// What there is, each line made harmless.
  std::string told() {
    take();
    std::string text;
    for (std::size_t at = 0; at < kept_.size();) {
      const std::size_t end = std::min(kept_.find('\n', at), kept_.size());
      std::string_view line = std::string_view(kept_).substr(at, end - at);
      line = line.substr(0, line.find_last_not_of(" \r") + 1);
      if (!line.empty()) {
        text += (text.empty() ? "" : "; ") + printable(line, max_told);
      }
      at = end + 1;
    }
    if (text.size() <= max_told) {
      return text;
    }
    const std::string_view end = std::string_view(text).substr(text.size() - max_told);
    return "…" + std::string(end.substr(cut_utf8_head(end)));
  }

 private:
  bool take() {
    return pipe_ && drain(pipe_->fd(), max_kept * 16, [this](std::string_view bytes) {
             kept_ += bytes;
             kept_.erase(0, kept_.size() - std::min(kept_.size(), max_kept));
           });
  }

  std::unique_ptr<AsyncFd> pipe_;  // null once closed
  std::string kept_;
};

/// The program behind a transport. Whoever asks for its last words may outlive both.
struct Running {
  std::string name;  // its own, without folders
  Child child;       // empty once the tree was let go
  std::shared_ptr<Complaints> complaints;
  std::optional<Ending> ending;  // once it is known

  bool has_ended() {
    if (!ending && child.ending) {
      ending = child.ending();
    }
    return ending.has_value();
  }

  void let_go() {
    has_ended();
    child = {};
    complaints->close();
  }

  Task<> wait(Executor executor, Milliseconds patience) {
    const TimePoint deadline = Clock::now() + patience;
    Waiter waiter(executor);
    waiter.subscribe(*child.exited);
    while (!has_ended() && Clock::now() < deadline) {
      co_await waiter.until(deadline);
    }
  }

  /// What it leads to may have to end in order too: whoever removes a container goes on behind the program.
  static void bid_farewell(std::shared_ptr<Running> self, std::shared_ptr<Timer> timer, TimePoint deadline) {
    if (self->child.is_gone() || Clock::now() >= deadline) {
      self->let_go();
      return;
    }
    timer->expires_after(farewell_look);
    timer->async_wait([self, timer, deadline](const std::error_code&) { bid_farewell(self, timer, deadline); });
  }

  std::string last_words() {
    const std::string said = complaints->told();
    if (!has_ended()) {
      return said.empty() ? "" : name + " says: " + said;
    }
    return name + " " + ending->words + (said.empty() ? "" : ": " + said);
  }
};

class ProgramTransport final : public Transport {
 public:
  ProgramTransport(Executor executor, std::unique_ptr<Transport> pipes, std::shared_ptr<Running> running)
      : executor_(executor), pipes_(std::move(pipes)), running_(std::move(running)) {}

  ~ProgramTransport() override {
    if (running_) {
      running_->let_go();
    }
  }

  Task<std::size_t> read_some(std::span<char> buffer) override {
    const std::size_t n = co_await pipes_->read_some(buffer);
    if (n == 0 && running_) {
      const std::shared_ptr<Running> running = running_;
      co_await running->wait(executor_, ending_patience);
    }
    co_return n;
  }

  std::size_t try_write(std::string_view data) override { return pipes_->try_write(data); }
  Task<> writable() override { return pipes_->writable(); }
  Task<bool> gone() override { return pipes_->gone(); }

  void end_output() override { pipes_->end_output(); }

  void close() override {
    pipes_->close();
    if (running_) {
      Running::bid_farewell(std::exchange(running_, nullptr), std::make_shared<Timer>(executor_),
                            Clock::now() + farewell);
    }
  }

 private:
  Executor executor_;
  std::unique_ptr<Transport> pipes_;
  std::shared_ptr<Running> running_;  // null once closed
};

}  // namespace

Task<Executed> execute(Executor executor, Spawner spawner, std::vector<std::string> argv) {
  Pipe in = make_pipe();
  Pipe out = make_pipe();
  Pipe err = make_pipe();
  const auto running = std::make_shared<Running>();
  running->name = printable(argv.front().substr(argv.front().rfind('/') + 1));
  running->complaints = std::make_shared<Complaints>(executor, std::move(err.read));
  running->child = co_await spawner(std::move(argv), in.read.get(), out.write.get(), err.write.get());
  spawn(executor, Complaints::collect(running->complaints));
  Executed executed;
  executed.transport = std::make_unique<ProgramTransport>(
      executor, over_descriptors(executor, std::move(out.read), std::move(in.write)), running);
  executed.last_words = [running] { return running->last_words(); };
  executed.succeeded = [running] { return running->has_ended() && running->ending->well; };
  executed.ended_well = [running] {
    return running->has_ended() && running->ending->well && running->complaints->told().empty();
  };
  co_return executed;
}

}  // namespace rex::transports
