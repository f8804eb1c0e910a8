// What a session tells about itself.
#include "shell/session.h"

namespace rex::shell {

SessionState Session::state() {
  if (starting_) {
    return SessionState::running;
  }
  if (!incarnation_ || incarnation_->program().ended()) {
    return SessionState::exited;
  }
  if (dialect_ == nullptr || incarnation_->replaced) {
    return SessionState::unmanaged;
  }
  return reads_input()          ? SessionState::waiting_input
         : foreground_stopped() ? SessionState::stopped
         : current_             ? SessionState::running
                                : SessionState::ready;
}

std::string Session::directory() const {
  const bool known = !current_ && !cwd_.empty();
  return known || !incarnation_ ? cwd_ : incarnation_->kernel_cwd().value_or(cwd_);
}

std::vector<pid_t> Session::tree() const {
  std::vector<pid_t> all;
  for (const std::shared_ptr<Incarnation>& each : former_) {
    const std::vector<pid_t> left = each->program().tree();
    all.insert(all.end(), left.begin(), left.end());
  }
  const std::vector<pid_t> now = incarnation_ ? incarnation_->program().tree() : std::vector<pid_t>{};
  all.insert(all.end(), now.begin(), now.end());
  return all;
}

SessionInfo Session::info() {
  SessionInfo info{};
  info.session = name();
  info.pid = incarnation_ ? incarnation_->program().pid() : 0;
  info.argv = options_.argv;
  info.shell = options_.shell;
  info.cwd = directory();
  info.tty = options_.tty;
  info.rows = options_.rows;
  info.cols = options_.cols;
  info.state = state();
  info.lifetime = options_.lifetime;
  info.ttl = options_.ttl;
  info.labels = options_.labels;
  info.created_at = created_at_;
  info.last_output_at = last_output_at_;
  info.oldest = journal_.oldest();
  info.next = journal_.end();
  if (current_ && incarnation_ && !incarnation_->program().ended()) {
    const pid_t leader = incarnation_->foreground();
    info.foreground = Process{leader, command_of(leader)};
  }
  if (current_) {
    info.job = current_->id();
  }
  info.waiting = waiting();
  info.writer = writer_.holder();
  info.generation = generation_;
  if (dialect_ != nullptr) {
    info.startup = startup_;
    info.startup->output = collect_startup();
  }
  for (const Journal* each : {&journal_, err_journal_.get()}) {
    if (each != nullptr && each->degraded() != 0) {
      info.journal_error = each->degraded();
    }
  }
  if (options_.limits.any()) {
    info.counted = incarnation_ ? incarnation_->program().counted() : TreeLimits{};
    info.limits = in_force(options_.limits, info.counted);
  }
  return info;
}

}  // namespace rex::shell
