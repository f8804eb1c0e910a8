// file/watch and file/unwatch. The looks are done on threads of their own: that of a large tree takes long.
#include <memory>
#include <utility>

#include "base/error.h"
#include "files/watch.h"
#include "methods/attachments.h"
#include "methods/binding.h"
#include "methods/methods.h"

namespace rex::methods {
namespace {

/// What the watches of an instance share. The table's, as bind_search has its workers.
struct Room {
  explicit Room(Executor loop)
      : executor(loop),
        workers(loop),
        inotify(std::make_shared<files::Inotify>(loop)),
        entries(std::make_shared<std::atomic<std::int64_t>>(0)) {}

  Executor executor;
  Workers workers;
  std::shared_ptr<files::Inotify> inotify;
  std::shared_ptr<std::atomic<std::int64_t>> entries;
};

Task<wire::FileWatchResult> watch(wire::FileWatchParams params, rpc::Call& call, std::shared_ptr<Attachments> all,
                                  Room& room) {
  all->require_room(*call.connection());
  const files::WatchRoom shared{room.executor, room.workers, room.inotify, room.entries};
  const auto attachment = std::make_shared<Attachment>();
  attachment->client = call.connection();
  attachment->watch = std::make_shared<files::Watch>(shared, std::move(params.path), params.recursive);
  {
    const Cancel::Listener cancel(call.cancel(), [watch = attachment->watch] { watch->stop(); });
    co_await attachment->watch->begin();
  }
  all->require_room(*call.connection());
  if (params.resumed) {
    attachment->watch->has_missed();
  }
  attachment->watch->start();
  all->start(attachment);
  co_return wire::FileWatchResult{attachment->id, attachment->watch->polling(), attachment->watch->unreadable()};
}

wire::Done unwatch(const wire::FileUnwatchParams& params, rpc::Call& call, Attachments& all) {
  const std::shared_ptr<Attachment> attachment = all.find(*call.connection(), params.attachment);
  if (!attachment || !attachment->watch) {
    throw invalid_params("attachment", "this connection has no watch called " + printable(params.attachment, 64));
  }
  all.end(*attachment);
  return {};
}

}  // namespace

void bind_watch(rpc::MethodTable& table, Executor executor, const std::shared_ptr<Attachments>& all) {
  const auto room = std::make_shared<Room>(executor);
  bind<wire::FileWatch>(table, [room, all](wire::FileWatchParams params, rpc::Call& call) {
    return watch(std::move(params), call, all, *room);
  });
  bind<wire::FileUnwatch>(
      table, [all](const wire::FileUnwatchParams& params, rpc::Call& call) { return unwatch(params, call, *all); });
}

}  // namespace rex::methods
