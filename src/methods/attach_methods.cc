// session/attach, detach, ack, subscribe and unsubscribe.
#include <utility>

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
  const shell::Stream stream = params.stream == wire::Stream::stderr_ ? shell::Stream::err : shell::Stream::out;
  const std::optional<shell::Offset> from =
      params.offset ? std::optional(static_cast<shell::Offset>(*params.offset)) : std::nullopt;
  attachment->session = params.session;
  attachment->cursor.emplace(session, stream, from, static_cast<std::size_t>(params.window));
  const bool on_terminal = params.newline ? *params.newline == wire::Newline::terminal : writes;
  if (on_terminal) {
    attachment->newlines.emplace(session->terminal_marks(), session->output_end());
  }
  if (writes) {
    const rpc::Connection& client = *call.connection();
    attachment->lease = session->take_writer(client.number(), name_of_client(client), params.takeover);
    session->shown_on_terminal(on_terminal ? *attachment->lease : 0);
  }
  attachments.start(attachment);
  return {attachment->id, to_wire(session->info())};
}

wire::SessionSubscribeResult subscribe(wire::SessionSubscribeParams params, rpc::Call& call, shell::Sessions& sessions,
                                       Attachments& attachments) {
  if (params.session) {
    [[maybe_unused]] const std::shared_ptr<shell::Session> known = sessions.find(*params.session);  // throws
  }
  attachments.require_room(*call.connection());
  const auto attachment = std::make_shared<Attachment>();
  attachment->client = call.connection();
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
