// file/search: on threads of its own, since a long search or a mount that hangs must hold up no other file operation.
#include <memory>
#include <utility>

#include "base/error.h"
#include "files/search.h"
#include "methods/binding.h"
#include "methods/methods.h"

namespace rex::methods {
namespace {

// Between two steps a cancelled search ends, and others have a turn.
constexpr Milliseconds search_step{20};

std::optional<wire::LineCut> cut_of(const files::ShownLine& line) {
  if (line.cut_before == 0 && line.cut_after == 0) {
    return std::nullopt;
  }
  return wire::LineCut{line.cut_before, line.cut_after};
}

std::vector<wire::ContextLine> to_wire(std::vector<files::ShownLine> lines) {
  std::vector<wire::ContextLine> all;
  for (files::ShownLine& line : lines) {
    const std::optional<wire::LineCut> cut = cut_of(line);
    all.push_back({std::move(line.text), cut});
  }
  return all;
}

wire::SearchMatch to_wire(files::SearchMatch found, bool context) {
  wire::SearchMatch match;
  match.path = std::move(found.path);
  if (found.type) {
    match.type = static_cast<wire::FileType>(*found.type);
  }
  if (found.line) {
    match.line = found.line->number;
    match.offset = found.line->offset;
    match.from = found.line->from;
    match.to = found.line->to;
    match.cut = cut_of(found.line->line);
    match.text = std::move(found.line->line.text);
    if (context) {
      match.before = to_wire(std::move(found.line->before));
      match.after = to_wire(std::move(found.line->after));
    }
  }
  return match;
}

wire::FileSearchResult to_wire(files::SearchResult done, bool context) {
  wire::FileSearchResult result;
  for (files::SearchMatch& match : done.matches) {
    result.matches.push_back(to_wire(std::move(match), context));
  }
  result.truncated = done.truncated;
  result.files = done.files;
  result.binary = done.binary;
  result.skipped = done.skipped;
  result.unreadable = done.unreadable;
  for (files::SearchError& error : done.errors) {
    result.errors.push_back({std::move(error.path), error.error_number, error_name(error.error_number)});
  }
  return result;
}

Task<wire::FileSearchResult> search(wire::FileSearchParams params, rpc::Call& call, Workers& workers) {
  files::SearchOptions options{std::move(params.path), std::move(params.pattern), std::move(params.glob),
                               params.maxResults, params.context};
  files::Search search(std::move(options));
  bool done = false;
  while (!done) {
    if (call.cancel() || call.connection()->is_closed()) {
      throw Error(Fault::RequestCancelled, "cancelled");
    }
    auto work = [&] { done = search.step(search_step); };
    co_await workers.run(std::move(work));
  }
  co_return to_wire(search.take(), params.context > 0);
}

}  // namespace

void bind_search(rpc::MethodTable& table, Executor executor) {
  // The table's, so that what still runs in a worker is waited for before the loop's tasks are destroyed.
  const auto workers = std::make_shared<Workers>(executor);
  bind<wire::FileSearch>(table, [workers](wire::FileSearchParams params, rpc::Call& call) {
    return search(std::move(params), call, *workers);
  });
}

}  // namespace rex::methods
