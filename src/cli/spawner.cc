#include "cli/spawner.h"

#include <memory>
#include <utility>

#include "shell/environment.h"

namespace rex::cli {
namespace {

constexpr Milliseconds look_again{5};

std::optional<transports::Ending> ending_of(const shell::Program& program) {
  if (!program.ended()) {
    return std::nullopt;
  }
  if (!program.exit()) {
    return transports::Ending{false, "ended, nobody knows how"};
  }
  if (const std::optional<int> code = program.exit()->exit_code()) {
    return transports::Ending{*code == 0, "exited with " + std::to_string(*code)};
  }
  const int signal = program.exit()->signal().value_or(0);
  return transports::Ending{false, "was killed by signal " + std::to_string(signal)};
}

Task<transports::Child> start(Executor executor, shell::Nursery& nursery, Started& started,
                              std::vector<std::string> argv, int in, int out, int err) {
  shell::Launch launch;
  launch.argv = std::move(argv);
  launch.env = shell::make_environment(false, {}, std::nullopt);
  const std::shared_ptr<shell::Program> program =
      co_await shell::Program::start(executor, nursery, std::move(launch), in, out, err);
  std::erase_if(started, [](const auto& each) { return each.expired(); });
  started.push_back(program);
  transports::Child child;
  child.exited = std::shared_ptr<Event>(program, &program->exited());
  child.ending = [program] { return ending_of(*program); };
  child.is_gone = [program] { return program->ended() && program->tree().empty(); };
  co_return child;
}

}  // namespace

transports::Spawner make_spawner(Executor executor, shell::Nursery& nursery, Started& started) {
  return [executor, &nursery, &started](std::vector<std::string> argv, int in, int out, int err) {
    return start(executor, nursery, started, std::move(argv), in, out, err);
  };
}

Task<> all_let_go(Executor executor, Started& started, TimePoint deadline) {
  Waiter waiter(executor);
  const auto forget_ended = [&] { std::erase_if(started, [](const auto& each) { return each.expired(); }); };
  for (forget_ended(); !started.empty() && Clock::now() < deadline; forget_ended()) {
    co_await waiter.until(std::min(deadline, Clock::now() + look_again));
  }
}

}  // namespace rex::cli
