// What streams to clients without being asked for each time: attachments, which carry a session's output and events,
// subscriptions, which carry events alone, and watches, which carry changes of files. Each is a task of its own that
// ends with its client.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "files/watch.h"
#include "rpc/connection.h"
#include "shell/output_cursor.h"
#include "shell/session_events.h"
#include "shell/sessions.h"

namespace rex::methods {

inline constexpr std::size_t max_attachments = 1000;
inline constexpr std::size_t max_kept_events = 1000;

/// One reader. Its id is local to its connection.
struct Attachment {
  std::string id;
  std::shared_ptr<rpc::Connection> client;
  std::optional<std::string> session;               // whose events it wants; all sessions' without
  std::optional<shell::OutputCursor> cursor;        // of an attachment, not of a subscription
  std::optional<shell::TerminalNewlines> newlines;  // for one that shows it on a terminal; of the cursor's session
  std::optional<std::uint64_t> lease;               // on typing, of a writer
  std::shared_ptr<files::Watch> watch;              // and then none of the others
  std::optional<shell::SessionEvents::Listener> listener;
  std::deque<shell::SessionEvent> events;  // not sent yet, at most max_kept_events
  std::int64_t lost_events = 0;            // dropped before the first of these
  bool ended = false;
  Event changed;
};

/// All attachments of all connections. Owned by the handlers that use it and by the tasks that stream.
class Attachments : public std::enable_shared_from_this<Attachments> {
 public:
  explicit Attachments(std::shared_ptr<shell::SessionEvents> events) : events_(std::move(events)) {}

  /// Throws LimitExceeded when the client has as many as it may.
  void require_room(const rpc::Connection& client) const;
  /// Gives it an id and lets it stream.
  void start(const std::shared_ptr<Attachment>& attachment);
  /// Null when the client has none of this name.
  [[nodiscard]] std::shared_ptr<Attachment> find(const rpc::Connection& client, const std::string& id) const;
  /// Ends it, its watch and its lease on typing.
  void end(Attachment& attachment);

 private:
  /// What the attachments of one connection share: they put one piece at a time into its output, each in its turn.
  struct Client {
    std::map<std::string, std::shared_ptr<Attachment>> attachments;
    std::deque<Waiter*> line;  // of those that have a piece to send
  };

  static Task<> stream(std::shared_ptr<Attachments> self, std::shared_ptr<Attachment> attachment,
                       std::shared_ptr<Client> client);

  std::shared_ptr<shell::SessionEvents> events_;
  std::map<std::uint64_t, std::shared_ptr<Client>> clients_;  // those with attachments, by the connection's number
  std::uint64_t next_id_ = 1;
};

}  // namespace rex::methods
