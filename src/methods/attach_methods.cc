// session/attach, detach, ack, subscribe and unsubscribe.
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "methods/attachments.h"
#include "methods/binding.h"
#include "methods/methods.h"
#include "methods/to_wire.h"

namespace rex::methods {
namespace {

/// What others read of a client: its own words, and the number that makes it one.
std::string name_of_client(const rpc::Connection& client) {
  const std::string name = printable(client.peer_name(), 64);
  return name.empty() ? "client " + std::to_string(client.number()) : name;
}

/// The lease of a writer; null where another has taken it while a resumed one was away, who is told so.
std::optional<std::uint64_t> lease_for(Attachment& attachment, shell::Session& session,
                                       const wire::SessionAttachParams& params) {
  const rpc::Connection& client = *attachment.client;
  try {
    return session.take_writer(client.number(), name_of_client(client), params.takeover && !params.resumed);
  } catch (const Error& error) {
    if (!params.resumed || error.fault() != Fault::NotWriter) {
      throw;
    }
  }
  attachment.events.push_back(session.what_is_now(shell::SessionEvent::Kind::writer_changed));
  attachment.events.back().text = session.info().writer.value_or("");
  return std::nullopt;
}

/// Its place, which throws what attach does.
shell::OutputCursor cursor_of(const std::shared_ptr<shell::Session>& session, const wire::SessionAttachParams& params) {
  const shell::Stream stream = params.stream == wire::Stream::stderr_ ? shell::Stream::err : shell::Stream::out;
  const auto window = static_cast<std::size_t>(params.window);
  if (params.resumed && params.offset) {
    const auto from = static_cast<shell::Offset>(*params.offset);
    return {session, stream, from, params.acked ? static_cast<shell::Offset>(*params.acked) : from, window};
  }
  if (params.acked) {
    throw invalid_params("acked", "only of one that is resumed, with its offset");
  }
  return {session, stream, params.offset ? std::optional(static_cast<shell::Offset>(*params.offset)) : std::nullopt,
          window};
}

wire::SessionAttachResult attach(const wire::SessionAttachParams& params, rpc::Call& call, shell::Sessions& sessions,
                                 Attachments& attachments) {
  const bool writes = params.role == wire::Role::writer;
  if (params.takeover && !writes) {
    throw invalid_params("takeover", "only a writer takes the lease over");
  }
  const std::shared_ptr<shell::Session> session = sessions.find(params.session);
  attachments.require_room(*call.connection());
  const auto attachment = std::make_shared<Attachment>();
  attachment->client = call.connection();
  attachment->session = params.session;
  attachment->cursor.emplace(cursor_of(session, params));
  if (params.resumed) {
    attachment->events.push_back(session->what_is_now(shell::SessionEvent::Kind::state_changed));
  }
  const bool on_terminal = params.newline ? *params.newline == wire::Newline::terminal : writes;
  if (on_terminal) {
    attachment->newlines.emplace(session->terminal_marks(), session->output_end());
  }
  if (writes) {
    attachment->lease = lease_for(*attachment, *session, params);
    if (attachment->lease) {
      session->shown_on_terminal(on_terminal ? *attachment->lease : 0);
    }
  }
  attachments.start(attachment);
  return {attachment->id, static_cast<std::int64_t>(attachment->cursor->place()), to_wire(session->info())};
}

wire::SessionSubscribeResult subscribe(wire::SessionSubscribeParams params, rpc::Call& call, shell::Sessions& sessions,
                                       Attachments& attachments) {
  if (params.session) {
    [[maybe_unused]] const std::shared_ptr<shell::Session> known = sessions.find(*params.session);  // throws
  }
  attachments.require_room(*call.connection());
  const auto attachment = std::make_shared<Attachment>();
  attachment->client = call.connection();
  for (const std::shared_ptr<shell::Session>& session :
       params.resumed ? sessions.list() : std::vector<std::shared_ptr<shell::Session>>()) {
    if (!params.session || *params.session == session->name()) {
      attachment->events.push_back(session->what_is_now(shell::SessionEvent::Kind::state_changed));
    }
  }
  attachment->session = std::move(params.session);
  attachments.start(attachment);
  return {attachment->id};
}

wire::Done end(const std::string& id, rpc::Call& call, Attachments& attachments) {
  const std::shared_ptr<Attachment> attachment = attachments.find(*call.connection(), id);
  if (!attachment || attachment->watch) {
    throw invalid_params("attachment", "this connection has none called " + printable(id, 64));
  }
  attachments.end(*attachment);
  return {};
}

}  // namespace

void bind_attachments(rpc::MethodTable& table, shell::Sessions& sessions, const std::shared_ptr<Attachments>& all) {
  bind<wire::SessionAttach>(table, [&sessions, all](const wire::SessionAttachParams& params, rpc::Call& call) {
    return attach(params, call, sessions, *all);
  });
  bind<wire::SessionSubscribe>(table, [&sessions, all](wire::SessionSubscribeParams params, rpc::Call& call) {
    return subscribe(std::move(params), call, sessions, *all);
  });
  bind<wire::SessionDetach>(table, [all](const wire::SessionDetachParams& params, rpc::Call& call) {
    return end(params.attachment, call, *all);
  });
  bind<wire::SessionUnsubscribe>(table, [all](const wire::SessionUnsubscribeParams& params, rpc::Call& call) {
    return end(params.attachment, call, *all);
  });
  bind_notification<wire::SessionAck>(
      table, [all](const wire::SessionAckParams& params, const std::shared_ptr<rpc::Connection>& from) {
        const std::shared_ptr<Attachment> attachment = all->find(*from, params.attachment);
        if (attachment && attachment->cursor) {
          attachment->cursor->acknowledge(static_cast<shell::Offset>(params.offset));
          attachment->changed.notify();
        }
      });
}

}  // namespace rex::methods
