// Who is told what the sessions of an instance announce. Knows neither sessions nor what becomes of an event.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "shell/session_types.h"

namespace rex::shell {

/// Listeners are told at once, in the order in which things happen. A listener must neither act on a session nor add or
/// remove listeners from within: it keeps what it heard and wakes whoever sends it on.
class SessionEvents {
 public:
  /// Hears everything until it is destroyed.
  class Listener {
   public:
    Listener(std::shared_ptr<SessionEvents> events, std::function<void(const SessionEvent&)> hear);
    ~Listener();
    Listener(const Listener&) = delete;
    Listener& operator=(const Listener&) = delete;

   private:
    friend class SessionEvents;
    std::shared_ptr<SessionEvents> events_;
    std::function<void(const SessionEvent&)> hear_;
  };

  void tell(const SessionEvent& event) const;
  [[nodiscard]] bool heard() const { return !listeners_.empty(); }

 private:
  std::vector<Listener*> listeners_;
};

}  // namespace rex::shell
