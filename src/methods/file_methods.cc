// file/*: params into options, values into results. The work is done on the workers: a mount that hangs must not hold
// up anybody's ping.
#include <utility>

#include "base/encoding.h"
#include "base/error.h"
#include "base/time.h"
#include "files/edit.h"
#include "files/read.h"
#include "files/stat.h"
#include "files/text.h"
#include "files/tree.h"
#include "files/write.h"
#include "methods/binding.h"
#include "methods/methods.h"
#include "methods/to_wire.h"

namespace rex::methods {
namespace {

// One turn of a recursive removal on a worker; between two, a cancelled request stops.
constexpr std::size_t removal_step = 1000;

void fill(wire::Stat& out, const files::Stat& stat) {
  out.type = static_cast<wire::FileType>(stat.type);
  out.size = stat.size;
  out.mode = stat.mode;
  out.mtime = format_time(stat.mtime);
  out.ctime = format_time(stat.ctime);
  out.uid = stat.uid;
  out.gid = stat.gid;
  out.target = stat.target;
  out.etag = stat.etag;
}

wire::Edit to_wire(const files::Edit& edit) {
  wire::Edit out;
  if (const auto* replace = std::get_if<files::Replace>(&edit)) {
    out.kind = wire::Edit::Kind::old;
    out.old = replace->old_text;
    out.new_ = replace->new_text;
    out.all = replace->all;
  } else {
    const auto& insert = std::get<files::Insert>(edit);
    out.kind = wire::Edit::Kind::line;
    out.line = insert.line;
    out.insert = insert.text;
  }
  return out;
}

std::vector<wire::Edit> to_wire(const std::vector<files::Edit>& edits) {
  std::vector<wire::Edit> all;
  for (const files::Edit& edit : edits) {
    all.push_back(to_wire(edit));
  }
  return all;
}

std::vector<files::Edit> from_wire(std::vector<wire::Edit> edits) {
  std::vector<files::Edit> all;
  for (wire::Edit& edit : edits) {
    if (edit.kind == wire::Edit::Kind::old) {
      all.emplace_back(files::Replace{std::move(edit.old), std::move(edit.new_), edit.all});
    } else {
      all.emplace_back(files::Insert{edit.line, std::move(edit.insert)});
    }
  }
  return all;
}

Task<wire::FileReadResult> read(wire::FileReadParams params, Workers& workers) {
  files::ReadOptions options;
  options.path = std::move(params.path);
  options.offset = params.offset;
  options.length = params.length;
  if (params.lines) {
    options.lines = files::Lines{(*params.lines)[0], (*params.lines)[1]};
  }
  // Without a wish it is text where that loses nothing: the bytes decide.
  options.encoding = static_cast<files::Encoding>(params.encoding.value_or(wire::FileEncoding::base64));
  options.errors = params.errors == wire::DecodeErrors::replace ? files::Errors::replace : files::Errors::strict;
  files::ReadResult done;
  auto work = [&] { done = files::read(options); };
  co_await workers.run(std::move(work));
  wire::FileReadResult result;
  result.encoding = params.encoding.value_or(wire::FileEncoding::base64);
  if (!params.encoding) {
    std::string bytes = from_base64(done.data).value_or("");
    if (travels_as_text(bytes)) {
      done.data = std::move(bytes);
      result.encoding = wire::FileEncoding::utf_8;
    }
  }
  result.data = std::move(done.data);
  result.from = done.from;
  result.next = done.next;
  result.size = done.size;
  result.etag = std::move(done.etag);
  co_return result;
}

Task<wire::FileWriteResult> write(wire::FileWriteParams params, Workers& workers) {
  files::WriteOptions options;
  options.path = std::move(params.path);
  options.data = files::decode(params.data, static_cast<files::Encoding>(params.encoding));
  if (params.mode) {
    options.mode = static_cast<std::uint32_t>(*params.mode);
  }
  options.append = params.append;
  options.parents = params.parents;
  options.if_match = std::move(params.ifMatch);
  options.if_absent = params.ifAbsent;
  files::WriteResult done;
  auto work = [&] { done = files::write(options); };
  co_await workers.run(std::move(work));
  wire::FileWriteResult result;
  fill(result, done.stat);
  result.created = done.created;
  co_return result;
}

Task<wire::FileEditResult> edit(wire::FileEditParams params, Workers& workers) {
  files::EditOptions options;
  options.several = params.files.has_value();
  options.dry_run = params.dryRun;
  if (params.files) {
    for (wire::FileEdits& file : *params.files) {
      options.files.push_back({std::move(file.path), from_wire(std::move(file.edits)), std::move(file.ifMatch)});
    }
  } else {
    options.files.push_back(
        {std::move(params.path).value_or(""), from_wire(std::move(params.edits)), std::move(params.ifMatch)});
  }
  std::vector<files::EditResult> done;
  auto work = [&] { done = files::edit(options); };
  co_await workers.run(std::move(work));
  wire::FileEditResult result;
  for (const files::EditResult& file : done) {
    result.diff += file.diff;
  }
  if (!options.several) {
    result.etag = done.front().etag;
    if (done.front().undo) {
      result.undo = to_wire(*done.front().undo);
    }
    co_return result;
  }
  result.files.emplace();
  for (const files::EditResult& file : done) {
    std::optional<std::vector<wire::Edit>> undo;
    if (file.undo) {
      undo = to_wire(*file.undo);
    }
    result.files->push_back({file.path, file.etag, std::move(undo)});
  }
  co_return result;
}

Task<wire::Stat> stat(wire::FileStatParams params, Workers& workers) {
  files::Stat done;
  auto work = [&] { done = files::stat(params.path, params.follow); };
  co_await workers.run(std::move(work));
  wire::Stat result;
  fill(result, done);
  co_return result;
}

Task<wire::FileListResult> list(wire::FileListParams params, Workers& workers) {
  files::ListOptions options{std::move(params.path), std::move(params.cursor).value_or(""), params.limit};
  files::ListResult done;
  auto work = [&] { done = files::list(options); };
  co_await workers.run(std::move(work));
  wire::FileListResult result;
  for (files::ListedEntry& listed : done.entries) {
    wire::Entry entry;
    fill(entry, listed.stat);
    entry.name = std::move(listed.name);
    result.entries.push_back(std::move(entry));
  }
  result.cursor = std::move(done.cursor);
  co_return result;
}

Task<wire::Done> remove(wire::FileRemoveParams params, rpc::Call& call, Workers& workers) {
  std::optional<files::Removal> removal;
  bool done = false;
  bool begun = false;
  while (!done) {
    if (call.cancel() && begun) {
      throw Error(Fault::RequestCancelled, "cancelled; a part of it may have been removed").executed(Executed::unknown);
    }
    auto work = [&] {
      if (!removal) {
        removal.emplace(params.path, params.recursive);
      }
      done = removal->step(removal_step);
    };
    co_await workers.run(std::move(work));
    begun = true;
  }
  co_return wire::Done{};
}

/// A step that answers nothing.
Task<wire::Done> done_after(Workers& workers, std::function<void()> work) {
  co_await workers.run(std::move(work));
  co_return wire::Done{};
}

Task<wire::FileRealpathResult> realpath(wire::FileRealpathParams params, Workers& workers) {
  wire::FileRealpathResult result;
  auto work = [&] { result.path = files::realpath(params.path); };
  co_await workers.run(std::move(work));
  co_return result;
}

files::Attributes attributes(const wire::FileSetattrParams& params) {
  files::Attributes wanted;
  if (params.mode) {
    wanted.mode = static_cast<std::uint32_t>(*params.mode);
  }
  if (params.mtime) {
    wanted.mtime = parse_time(*params.mtime);
    if (!wanted.mtime) {
      throw invalid_params("mtime", "must be an RFC 3339 time, for example 2026-01-31T12:00:00Z");
    }
  }
  if (params.uid) {
    wanted.uid = static_cast<std::uint32_t>(*params.uid);
  }
  if (params.gid) {
    wanted.gid = static_cast<std::uint32_t>(*params.gid);
  }
  return wanted;
}

}  // namespace

void bind_files(rpc::MethodTable& table, Workers& workers, KeyStore& store) {
  const Memory kept{nullptr, &store};
  // clang-format off
  bind<wire::FileRead>(table, [&](wire::FileReadParams params, rpc::Call&) { return read(std::move(params), workers); });
  bind_once<wire::FileWrite>(table, kept, [&](wire::FileWriteParams params, rpc::Call&) { return write(std::move(params), workers); });
  bind_once<wire::FileEdit>(table, kept, [&](wire::FileEditParams params, rpc::Call&) { return edit(std::move(params), workers); });
  bind<wire::FileStat>(table, [&](wire::FileStatParams params, rpc::Call&) { return stat(std::move(params), workers); });
  bind<wire::FileList>(table, [&](wire::FileListParams params, rpc::Call&) { return list(std::move(params), workers); });
  bind_once<wire::FileRemove>(table, kept, [&](wire::FileRemoveParams params, rpc::Call& call) { return remove(std::move(params), call, workers); });
  bind<wire::FileRealpath>(table, [&](wire::FileRealpathParams params, rpc::Call&) { return realpath(std::move(params), workers); });
  bind_once<wire::FileMkdir>(table, kept, [&](const wire::FileMkdirParams& params, rpc::Call&) { return done_after(workers, [params] { files::mkdir(params.path, params.parents); }); });
  bind_once<wire::FileRename>(table, kept, [&](const wire::FileRenameParams& params, rpc::Call&) { return done_after(workers, [params] { files::rename(params.from, params.to, params.overwrite); }); });
  bind_once<wire::FileSymlink>(table, kept, [&](const wire::FileSymlinkParams& params, rpc::Call&) { return done_after(workers, [params] { files::symlink(params.path, params.target); }); });
  bind_once<wire::FileSetattr>(table, kept, [&](const wire::FileSetattrParams& params, rpc::Call&) { return done_after(workers, [path = params.path, wanted = attributes(params)] { files::setattr(path, wanted); }); });
  // clang-format on
}

}  // namespace rex::methods
