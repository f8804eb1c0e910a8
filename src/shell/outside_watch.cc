#include "shell/outside_watch.h"

#include <algorithm>

#include "shell/listening.h"

namespace rex::shell {
namespace {

constexpr Milliseconds first_pause{5};
constexpr Milliseconds longest_pause{100};

constexpr Milliseconds first_look_patience{250};

}  // namespace

OutsideWatch::OutsideWatch(Executor executor, Workers& workers, const std::vector<Condition>& any,
                           const std::string& cwd)
    : files_(any.size()), pause_(first_pause) {
  for (std::size_t i = 0; i < any.size(); ++i) {
    if (any[i].kind == Condition::Kind::listening) {
      next_look_ = began_;
    } else if (any[i].kind == Condition::Kind::file) {
      const std::string path = any[i].path.starts_with('/') ? any[i].path : cwd + "/" + any[i].path;
      files_[i] = std::make_shared<FileWatch>(executor, workers, path, any[i].changed);
      files_[i]->start();
    }
  }
}

OutsideWatch::~OutsideWatch() {
  for (const std::shared_ptr<FileWatch>& file : files_) {
    if (file) {
      file->stop();
    }
  }
}

bool OutsideWatch::holds(std::size_t index, const Condition& condition,
                         const std::function<std::vector<pid_t>()>& tree) {
  if (condition.kind == Condition::Kind::file) {
    return files_[index]->met();
  }
  if (Clock::now() < next_look_) {
    return false;
  }
  return listens_on(tree(), condition.port);
}

void OutsideWatch::looked() {
  const TimePoint now = Clock::now();
  if (now >= next_look_) {
    next_look_ = now + pause_;
    pause_ = std::min(pause_ * 2, longest_pause);
  }
}

TimePoint OutsideWatch::not_before(TimePoint deadline) const {
  const auto unknown = [](const std::shared_ptr<FileWatch>& file) { return file && !file->looked(); };
  return std::any_of(files_.begin(), files_.end(), unknown) ? std::max(deadline, began_ + first_look_patience)
                                                            : deadline;
}

void OutsideWatch::subscribe(Waiter& waiter) {
  for (const std::shared_ptr<FileWatch>& file : files_) {
    if (file) {
      waiter.subscribe(file->news());
    }
  }
}

}  // namespace rex::shell
