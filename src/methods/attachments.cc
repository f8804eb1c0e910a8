#include "methods/attachments.h"

#include <algorithm>
#include <utility>

#include "base/encoding.h"
#include "base/error.h"
#include "methods/methods.h"
#include "methods/to_wire.h"

namespace rex::methods {
namespace {

// Output waits while a client has so much of what we sent still to take, so that an answer is never behind more.
constexpr std::size_t max_unsent = 256 * 1024;
constexpr std::size_t piece_bytes = 32 * 1024;

bool has_room(const rpc::Connection& client) { return client.unsent_bytes() <= max_unsent; }

void send_piece(Attachment& to, shell::OutputPiece piece) {
  wire::SessionOutputParams params;
  params.session = to.cursor->session().name();
  params.attachment = to.id;
  params.stream = to.cursor->stream() == shell::Stream::err ? wire::Stream::stderr_ : wire::Stream::stdout_;
  params.offset = static_cast<std::int64_t>(piece.offset);
  params.next = params.offset + static_cast<std::int64_t>(piece.data.size());
  if (to.newlines) {
    if (to.newlines->next() != piece.offset) {
      to.newlines->skip_to(piece.offset);
    }
    std::string shown;
    to.newlines->take(piece.data, shown);
    piece.data = std::move(shown);
  }
  const bool text = travels_as_text(piece.data);
  params.encoding = text ? wire::Encoding::utf_8 : wire::Encoding::base64;
  params.data = text ? std::move(piece.data) : to_base64(piece.data);
  if (piece.lost_from) {
    params.gap = wire::Gap{static_cast<std::int64_t>(*piece.lost_from), params.offset};
  }
  if (piece.last) {
    params.eof = true;
  }
  to.client->notify(wire::SessionOutput::name, wire::write(params));
}

void send_event(Attachment& to, const shell::SessionEvent& event) {
  wire::SessionEventParams params = to_wire(event);
  params.attachment = to.id;
  if (to.lost_events != 0) {
    params.lost = std::exchange(to.lost_events, 0);
  }
  to.client->notify(wire::SessionEvent::name, wire::write(params));
}

void send_changes(Attachment& to) {
  while (to.watch && !to.ended && to.watch->has_news() && has_room(*to.client)) {
    files::Watch::News news = to.watch->take(piece_bytes);
    wire::FileChangedParams params;
    params.attachment = to.id;
    const std::string& path = to.watch->path();
    for (const files::PathChange& change : news.changes) {
      const bool inside = !change.path.empty();
      params.changes.push_back({path + (inside && !path.ends_with('/') ? "/" : "") + change.path,
                                static_cast<wire::ChangeKind>(change.kind)});
    }
    if (news.overflow) {
      params.overflow = true;
    }
    params.polling = std::move(news.polling);
    to.client->notify(wire::FileChanged::name, wire::write(params));
  }
}

void send_events(Attachment& to) {
  send_changes(to);
  while (!to.events.empty() && has_room(*to.client)) {
    const shell::SessionEvent event = std::move(to.events.front());
    to.events.pop_front();
    send_event(to, event);
  }
}

void keep_event(Attachment& attachment, const shell::SessionEvent& event) {
  if (attachment.session && *attachment.session != event.session) {
    return;
  }
  attachment.events.push_back(event);
  if (attachment.events.size() > max_kept_events) {
    attachment.events.pop_front();
    ++attachment.lost_events;
  }
  attachment.changed.notify();
}

}  // namespace

void Attachments::require_room(const rpc::Connection& client) const {
  const auto known = clients_.find(client.number());
  if (known != clients_.end() && known->second->attachments.size() >= max_attachments) {
    throw limit_exceeded("attachments", max_attachments + 1, max_attachments);
  }
}

void Attachments::start(const std::shared_ptr<Attachment>& attachment) {
  std::shared_ptr<Client>& client = clients_[attachment->client->number()];
  if (!client) {
    client = std::make_shared<Client>();
  }
  attachment->id = "a" + std::to_string(next_id_++);
  client->attachments[attachment->id] = attachment;
  if (!attachment->watch) {
    attachment->listener.emplace(
        events_, [raw = attachment.get()](const shell::SessionEvent& event) { keep_event(*raw, event); });
  }
  spawn(attachment->client->executor(), stream(shared_from_this(), attachment, client));
}

std::shared_ptr<Attachment> Attachments::find(const rpc::Connection& client, const std::string& id) const {
  const auto known = clients_.find(client.number());
  if (known == clients_.end()) {
    return nullptr;
  }
  const auto found = known->second->attachments.find(id);
  return found == known->second->attachments.end() ? nullptr : found->second;
}

void Attachments::end(Attachment& attachment) {
  if (std::exchange(attachment.ended, true)) {
    return;
  }
  attachment.listener.reset();
  if (attachment.watch) {
    attachment.watch->stop();
  }
  if (attachment.lease) {
    attachment.cursor->session().leave_writer(*attachment.lease);
  }
  const auto client = clients_.find(attachment.client->number());
  client->second->attachments.erase(attachment.id);
  if (client->second->attachments.empty()) {
    clients_.erase(client);
  }
  attachment.changed.notify();
}

Task<> Attachments::stream(std::shared_ptr<Attachments> self, std::shared_ptr<Attachment> attachment,
                           std::shared_ptr<Client> client) {
  Attachment& a = *attachment;
  Waiter waiter(a.client->executor());
  waiter.subscribe(a.changed);
  waiter.subscribe(a.client->drained());
  waiter.subscribe(a.client->closed());
  if (a.cursor) {
    waiter.subscribe(a.cursor->session().changed());
  }
  if (a.watch) {
    waiter.subscribe(a.watch->news());
  }
  bool last = false;
  while (!last && !a.ended && !a.client->is_closed()) {
    // The answer that tells the id goes first, and between two pieces everybody else has a turn.
    co_await waiter.until(Clock::now());
    send_events(a);
    while (!a.ended && !a.client->is_closed() && !(a.cursor && a.cursor->has_next())) {
      co_await waiter.until(never);
      send_events(a);
    }
    client->line.push_back(&waiter);
    while (!a.ended && !a.client->is_closed() && (client->line.front() != &waiter || !has_room(*a.client))) {
      co_await waiter.until(never);
    }
    std::erase(client->line, &waiter);
    if (!client->line.empty()) {
      client->line.front()->wake();
    }
    if (!a.ended && !a.client->is_closed()) {
      if (std::optional<shell::OutputPiece> piece = a.cursor->next(piece_bytes)) {
        last = piece->last;
        send_events(a);  // an end is told before the last of the output
        send_piece(a, std::move(*piece));
      }
    }
  }
  send_events(a);
  while (!a.events.empty() && !a.ended && !a.client->is_closed()) {
    co_await waiter.until(never);
    send_events(a);
  }
  self->end(a);
}

}  // namespace rex::methods
